"""The figures of a decode line, by the words of several versions of SGLang."""

from __future__ import annotations

import pytest

from ddops.agent import decode

LINE = (
    "Decode batch, #running-req: 2, #token: 90, accept len: 4.48, {graph}, gen throughput (token/s): 285.1, "
    "#queue-req: 3"
)


@pytest.mark.parametrize(
    ("graph", "graphs"),
    [("cuda graph: True", True), ("cpu graph: False", False), ("cuda graph: breakable", "breakable"), ("-", None)],
)
def test_what_a_decode_line_says(graph: str, graphs: object) -> None:
    line = LINE.format(graph=graph)
    assert decode.is_decode(line)
    assert decode.figures(line) == {
        "running": 2,
        "queued": 3,
        "accept_len": 4.48,
        "tokens_per_s": 285.1,
        "graphs": graphs,
    }


def test_other_lines_say_nothing() -> None:
    assert not decode.is_decode("Prefill batch, #new-seq: 1")
    assert set(decode.figures("The server is fired up").values()) == {None}
