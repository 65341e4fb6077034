"""Journals from files: every shape that journald gives an entry, and no fault line lost among them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddops.agent.cutlines import Streams
from ddops.agent.faults import Detector, Incident, Scope, classify
from ddops.agent.faults.importing import entries

IMA = "RuntimeError: CUDA error: an illegal memory access was encountered"
OURS = {"_SYSTEMD_UNIT": "sglang.service", "SYSLOG_IDENTIFIER": "sglang", "_TRANSPORT": "stdout", "_STREAM_ID": "s1"}


def incidents(*found: dict[str, Any] | bytes, plain: bool = False) -> list[Incident]:
    lines = [entry if isinstance(entry, bytes) else json.dumps({**OURS, **entry}).encode() for entry in found]
    detector = Detector("trial", Scope(frozenset({"sglang.service"})))
    return classify(entries(lines, plain=plain), detector)


def rules(*found: dict[str, Any] | bytes, plain: bool = False) -> list[str]:
    return [incident.rule.name for incident in incidents(*found, plain=plain)]


@pytest.mark.parametrize(
    "message",
    [
        IMA,
        list(IMA.encode()),
        list(f"\x1b[31m{IMA}\x1b[0m".encode()),
        list(f"\r 10%|█ |\r{IMA}".encode()),
        list(b"\xff\xfe " + IMA.encode() + b" \xc3"),
        ["first", IMA],
        [list(b"first \xff"), list(IMA.encode())],
        f"Scheduler hit an exception: Traceback\n  File x\n{IMA}",
        "x" * (1 << 20) + f"\n{IMA}\n" + "y" * 1000,
    ],
    ids=["string", "bytes", "ansi", "bar", "bad-utf8", "list", "list-of-bytes", "lines", "1-MiB"],
)
def test_a_fault_is_found_in_every_shape_of_message(message: Any) -> None:
    assert rules({"MESSAGE": message}) == ["illegal-memory-access"]


@pytest.mark.parametrize("entry", [{}, {"MESSAGE": None}, {"MESSAGE": []}, {"MESSAGE": ""}, {"MESSAGE": {"a": 1}}])
def test_an_entry_that_says_nothing_is_no_fault(entry: dict[str, Any]) -> None:
    assert rules(entry) == []


def test_a_unit_of_a_users_manager_is_known_by_its_own_name() -> None:
    users = {"_SYSTEMD_UNIT": "user@1000.service", "MESSAGE": IMA}
    assert rules({**users, "_SYSTEMD_USER_UNIT": "sglang.service"}) == ["illegal-memory-access"]
    assert rules({**users, "_SYSTEMD_USER_UNIT": "train.service"}) == []


def cut(at: int, stream: str = "s1", head: str = "[TP0] x" + "1" * 600) -> list[dict[str, Any]]:
    whole = f"{head} {IMA} é".encode()
    split = len(head) + at
    first = {"MESSAGE": list(whole[:split]), "_LINE_BREAK": "line-max", "_STREAM_ID": stream}
    return [first, {"MESSAGE": list(whole[split:]), "_STREAM_ID": stream}]


@pytest.mark.parametrize("at", [0, 5, 30, 50, len(IMA), len(IMA) + 3])
def test_a_line_that_journald_cut_is_joined_on_its_stream(at: int) -> None:
    first, second = cut(at)
    other = {"MESSAGE": "Decode batch, #running-req: 1", "_STREAM_ID": "s2"}
    assert rules(first, other, second) == ["illegal-memory-access"]


def test_the_rest_of_a_line_that_quotes_a_user_is_a_quote() -> None:
    first, second = cut(20, head="Receive: obj=GenerateReqInput(text='" + "x" * 600)
    assert rules(first, second) == []
    assert rules(first, second, {"MESSAGE": IMA}) == ["illegal-memory-access"]


def test_a_cut_line_of_which_the_first_part_is_null_is_a_fault_of_its_own() -> None:
    assert rules({"MESSAGE": None, "_LINE_BREAK": "line-max"}) == ["unreadable-line"]


def test_streams_forget_a_line_that_is_complete() -> None:
    streams = Streams()
    assert streams.join(b"s", b"CUDA error: an illegal m", b"line-max") == b"CUDA error: an illegal m"
    assert streams.join(b"s", b"emory access", b"") == b"CUDA error: an illegal memory access"
    assert streams.join(b"s", b"next", b"") == b"next"


def test_plain_lines_of_containers() -> None:
    cri = b"2026-04-02T11:20:31.1Z stderr "
    cut = rules(cri + b"P CUDA error: an illegal mem", cri + b"F ory access was encountered", plain=True)
    assert cut == ["illegal-memory-access"]
    assert rules(b'{"log":"' + IMA.encode() + b'\\n","stream":"stderr"}', plain=True)
    assert rules(cri + b"P " + IMA.encode(), plain=True), "the last line may be without its end"


def test_what_is_no_json_is_a_line() -> None:
    assert rules(b"-- Boot 0a1b --", IMA.encode(), b"{broken") == ["illegal-memory-access"]


noise = st.one_of(
    st.binary(max_size=200).filter(lambda b: b"\n" not in b),
    st.builds(lambda m: json.dumps({**OURS, "MESSAGE": m}).encode(), st.one_of(
        st.none(), st.text(max_size=80), st.lists(st.integers(0, 255), max_size=80), st.lists(st.text(max_size=9)),
        st.lists(st.integers()), st.floats(), st.booleans(), st.dictionaries(st.text(), st.text(), max_size=2),
    )),
    st.builds(lambda d: json.dumps(d).encode(), st.dictionaries(
        st.sampled_from(["MESSAGE", "_STREAM_ID", "_LINE_BREAK", "__REALTIME_TIMESTAMP", "_PID", "_TRANSPORT", "UNIT"]),
        st.one_of(st.none(), st.text(max_size=20), st.integers(), st.lists(st.integers(-5, 300), max_size=5)),
    )),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(noise, max_size=8), st.lists(noise, max_size=8))
def test_a_fault_line_among_arbitrary_entries_is_always_found(before: list[bytes], after: list[bytes]) -> None:
    fault = {**OURS, "_STREAM_ID": "of-the-fault", "MESSAGE": f"[TP1] {IMA}"}
    # chance can make another fault's line just before it: then that names the incident, and this is a line of it
    shown = {line.rule for incident in incidents(*before, fault, *after) for line in incident.lines}
    assert "illegal-memory-access" in shown


def test_a_fault_line_behind_another_faults_is_a_line_of_that_incident() -> None:
    (incident,) = incidents({"MESSAGE": "CUDA_ERROR_UNKNOWN"}, {"MESSAGE": IMA})
    assert [line.rule for line in incident.lines] == ["unknown-cuda-error", "illegal-memory-access"]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_a_fault_among_arbitrary_bytes_of_one_line_is_found(before: bytes, after: bytes) -> None:
    line = before.replace(b"\n", b" ") + b" " + IMA.encode() + b" " + after.replace(b"\n", b" ")
    quoted = any(mark in line for mark in (b"=", b":", b"'"))
    found = rules({"MESSAGE": list(line)})
    assert found == ["illegal-memory-access"] or (quoted and found == [])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, len(IMA) + 8), max_size=4), st.lists(st.booleans(), min_size=8, max_size=8))
def test_a_fault_cut_anywhere_any_number_of_times_is_found(cuts: list[int], others: list[bool]) -> None:
    whole, at, parts = f"[TP0] {IMA}".encode(), 0, []
    for end in [*sorted(set(cuts)), len(whole)]:
        parts.append({"MESSAGE": list(whole[at:end]), "_LINE_BREAK": "line-max"})
        at = end
    del parts[-1]["_LINE_BREAK"]
    mixed: list[dict[str, Any]] = []
    for part, other in zip(parts, others, strict=False):
        mixed += [{"MESSAGE": "Prefill batch, #new-seq: 1", "_STREAM_ID": "s2"}] if other else []
        mixed.append(part)
    assert rules(*mixed) == ["illegal-memory-access"]
