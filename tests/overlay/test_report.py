import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from ddops_overlay import pins, refuse, report
from ddops_overlay.hooks import Hook, is_wrapped, source_sha256
from ddops_overlay.settings import Settings


def original(x: int) -> int:
    return x + 1


def ours(function: Callable[[int], int], x: int) -> int:
    return function(x)


def theirs(function: Callable[[int], int], x: int) -> int:
    return function(x)


def around(function: Callable[..., Any], hook: Callable[..., Any]) -> Callable[..., Any]:
    """As sglang.srt.plugins.hook_registry wraps."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return hook(function, *args, **kwargs)

    return wrapper


SHA256 = hashlib.sha256(inspect.getsource(original).encode()).hexdigest()
TARGET = "fake_sglang.function"
HOOK = Hook(TARGET, "around", ours)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType("fake_sglang")
    module.function = original  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_sglang", module)
    monkeypatch.setattr(pins, "SOURCES", {TARGET: SHA256})
    monkeypatch.setattr(report, "sglang_version", lambda: pins.SGLANG)
    return module


def built(hooks: list[Hook], bases: list[str]) -> dict[str, Any]:
    return report.build("scheduler", 3, Settings(release="lab-0002"), hooks, bases)


def test_a_hook_in_place(fake: Any) -> None:
    fake.function = around(original, ours)
    content = built([HOOK], [])
    assert content["ok"] is True
    assert "problem" not in content
    assert content["hooks"] == [{"target": TARGET, "sha256": SHA256, "wrapped": True}]
    assert (content["process"], content["tp_rank"], content["release"]) == ("scheduler", 3, "lab-0002")
    json.dumps(content)


def test_a_hook_under_and_over_another_plugin(fake: Any) -> None:
    fake.function = around(around(original, ours), theirs)
    assert is_wrapped(HOOK)
    fake.function = around(around(original, theirs), ours)
    assert is_wrapped(HOOK)
    assert source_sha256(TARGET) == SHA256


def test_a_class_method(fake: Any) -> None:
    class Engine:
        @classmethod
        def launch(cls) -> None: ...

    fake.Engine = Engine
    hook = Hook("fake_sglang.Engine.launch", "around", ours)
    assert not is_wrapped(hook)
    Engine.launch = classmethod(around(Engine.__dict__["launch"].__func__, ours))  # type: ignore[method-assign, assignment]
    assert is_wrapped(hook)


def test_a_hook_that_was_not_applied(fake: Any) -> None:
    content = built([HOOK], [])
    assert content["ok"] is False
    assert content["problem"] == f"{TARGET} is not wrapped"


def test_another_plugins_hook_alone_is_not_ours(fake: Any) -> None:
    fake.function = around(original, theirs)
    assert built([HOOK], [])["ok"] is False


def test_a_target_that_moved(fake: Any) -> None:
    del fake.function
    content = built([HOOK], [])
    assert content["hooks"] == [{"target": TARGET, "sha256": None, "wrapped": False}]
    assert f"{TARGET} is not there" in content["problem"]


@pytest.mark.parametrize("as_base", [True, False])
def test_a_source_that_changed(fake: Any, monkeypatch: pytest.MonkeyPatch, as_base: bool) -> None:
    fake.function = around(original, ours)
    monkeypatch.setattr(pins, "SOURCES", {TARGET: "0" * 64})
    content = built([], [TARGET]) if as_base else built([HOOK], [])
    assert content["ok"] is False
    assert "is not the one that the overlay was written for" in content["problem"]


def test_another_sglang(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "sglang_version", lambda: "0.5.23")
    assert built([], [])["problem"] == f"SGLang is 0.5.23, the overlay is for {pins.SGLANG}"


def test_it_is_said_once_and_refused_when_not_ok(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, dict[str, Any]]] = []
    refused: list[str] = []
    monkeypatch.setattr(report, "say", lambda key, value: said.append((key, value)))
    monkeypatch.setattr(report, "refuse", refused.append)
    monkeypatch.setattr(report, "_said", set())
    for _ in range(2):
        report.report("main", None, Settings(), [HOOK], [])
    assert [key for key, _ in said] == ["ddops_overlay"]
    assert refused == [f"{TARGET} is not wrapped"]


def test_every_pin_is_a_sha256() -> None:
    assert pins.SOURCES
    assert all(len(value) == 64 and int(value, 16) for value in pins.SOURCES.values())
    assert refuse.EXIT_STATUS == 78
