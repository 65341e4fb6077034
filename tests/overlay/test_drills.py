from types import SimpleNamespace
from typing import Any

import pytest
from ddops_overlay import drills
from ddops_overlay.drills import garbage, illegal_access
from ddops_overlay.settings import DRILLS, Drill

NEEDS_TORCH = "torch is not installed here: run with the engine's Python (see conftest)"


def batch(mode: str) -> Any:
    kinds = {f"is_{kind}": (lambda kind=kind: kind == mode) for kind in ("decode", "target_verify")}
    return SimpleNamespace(forward_mode=SimpleNamespace(**kinds))


def test_every_name_has_a_drill() -> None:
    assert {drills.hook(Drill(name)).target for name in DRILLS} == {garbage.TARGET, illegal_access.TARGET}


def test_an_illegal_access_is_what_torch_raises() -> None:
    torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
    raise_it = illegal_access.hook(0).function
    with pytest.raises(torch.AcceleratorError) as caught:
        raise_it(None, batch("extend"))
    first, *rest = str(caught.value).splitlines()
    assert first == "CUDA error: an illegal memory access was encountered"
    assert rest[-2:] == [
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ]


def test_an_illegal_access_waits_for_its_step() -> None:
    torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
    run_batch = illegal_access.hook(2).function
    for mode in ("extend", "decode", "extend", "decode"):
        run_batch(None, batch(mode))
    with pytest.raises(torch.AcceleratorError):
        run_batch(None, batch("decode"))


@pytest.mark.parametrize(("after_steps", "wrong"), [(0, [True, True, True, True]), (1, [False, False, True, True])])
def test_garbage_rolls_the_logits_from_its_step_on(after_steps: int, wrong: list[bool]) -> None:
    torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
    forward = garbage.hook(after_steps).function
    found = []
    for mode in ("extend", "decode", "target_verify", "decode"):
        output = SimpleNamespace(logits_output=SimpleNamespace(next_token_logits=torch.tensor([[0.0, 9.0, 0.0, 0.0]])))
        forward(output, None, batch(mode))
        found.append(int(output.logits_output.next_token_logits.argmax()) != 1)
    assert found == wrong


def test_garbage_is_another_in_each_pass() -> None:
    torch = pytest.importorskip("torch", reason=NEEDS_TORCH)
    forward = garbage.hook(0).function
    found = []
    for _ in range(6):
        output = SimpleNamespace(logits_output=SimpleNamespace(next_token_logits=torch.tensor([[9.0, 0.0, 0.0, 0.0]])))
        forward(output, None, batch("decode"))
        found.append(int(output.logits_output.next_token_logits.argmax()))
    assert found == [2, 3, 1, 2, 3, 1]


def test_a_drill_announces_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(drills, "say", lambda key, value: said.append((key, value)))
    drills.announce(Drill("garbage", 5), 1)
    [(key, value)] = said
    assert key == "ddops_drill"
    assert (value["name"], value["after_steps"], value["tp_rank"]) == ("garbage", 5, 1)
