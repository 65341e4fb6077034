"""Every benchmark runs and gives what it promises. How fast anything was is not judged here."""

from __future__ import annotations

import json
import math

import pytest

from benchmarks import figures, kill, overhead, round_trips, startup, supervisor
from benchmarks.figures import Figure

from .service_host import ServiceHost

pytestmark = pytest.mark.lab


def test_every_benchmark_runs_and_gives_plausible_figures(
    served: ServiceHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(round_trips, "DELAYS_MS", (1, 40))
    found = {
        "startup": startup.measure(served, 1),
        "supervisor": supervisor.measure(served, 1, seconds=0.5),
        "overhead": overhead.measure(served, 1),
        "round_trips": round_trips.measure(served, 1),
        "kill": kill.measure(served, 1),
    }
    for name, measured in found.items():
        assert measured, name
        for figure in measured:
            assert len(figure.values) == 1, figure
            assert all(math.isfinite(v) for v in figure.values), figure

    start = _medians(found["startup"])
    assert {"ddops --version", "ddops --help"} < start.keys()
    assert all(seconds > 0 for seconds in start.values())
    rest = _medians(found["supervisor"])
    assert 5 < rest["its own share of it (PSS)"] < rest["resident memory (RSS)"]
    own = _medians(found["overhead"])
    assert 0 < own["a change, own overhead"] < own["a change, whole"]
    assert own["  step load"] > 0
    # slopes over two delays, once each: on a busy machine their noise is larger than they are
    assert {"TCP connect (proves the slope: 1)", "deploy, a change"} < _medians(found["round_trips"]).keys()
    assert 0 < _medians(found["kill"])["fault line to process gone"] < 60_000

    figures.show("a title", found["startup"], as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert [f["name"] for f in document["figures"]][: len(startup.COMMANDS)] == list(startup.COMMANDS)
    assert document["figures"][0]["goal"] == 100


def _medians(measured: list[Figure]) -> dict[str, float]:
    return {figure.name: figure.median for figure in measured}
