"""Where each process of SGLang is met, so that each proves itself once.

main        ServerArgs.check_server_args runs there, after the plug-ins and before any child is spawned
scheduler   configure_scheduler_process runs in the child, knows the rank, and comes after load_plugins
detokenizer 0.5.16 loads no plug-ins in it: the main process hands it `run_detokenizer` as its entry
"""

from __future__ import annotations

import inspect
from typing import Any

from . import drills
from .hooks import Hook
from .report import attest, report
from .settings import Settings

MAIN = "sglang.srt.server_args.ServerArgs.check_server_args"
SCHEDULER = "sglang.srt.managers.scheduler.configure_scheduler_process"
DETOKENIZER = "sglang.srt.entrypoints.engine.Engine._launch_detokenizer_subprocesses"

_state: dict[str, Any] = {}


def arm(settings: Settings, hooks: list[Hook], bases: list[str]) -> list[Hook]:
    """The hooks to register: those given, and the ones that make each process report."""
    every = [
        *hooks,
        Hook(MAIN, "before", _main_starts),
        Hook(SCHEDULER, "after", _scheduler_starts),
        Hook(DETOKENIZER, "around", _detokenizer_launches),
    ]
    _state.update(settings=settings, hooks=every, bases=bases)
    return every


def audited(tp_rank: int, evidence: dict[str, Any], problem: str | None) -> None:
    """The scheduler's report after DDTREE's audit at start-up."""
    attest(tp_rank, _state["settings"], _state["hooks"], _state["bases"], evidence, problem)


def _main_starts(*_args: Any, **_kwargs: Any) -> None:
    _report("main", None)


def _scheduler_starts(_result: Any, *args: Any, **kwargs: Any) -> None:
    rank = _argument("tp_rank", 2, args, kwargs)
    _report("scheduler", rank)
    if _state["settings"].drill:
        drills.announce(_state["settings"].drill, rank)


def _detokenizer_launches(original: Any, *args: Any, **kwargs: Any) -> Any:
    bound = inspect.signature(original).bind(*args, **kwargs)
    bound.arguments["run_detokenizer_process_func"] = run_detokenizer
    return original(*bound.args, **bound.kwargs)


def run_detokenizer(*args: Any, **kwargs: Any) -> None:
    """The detokenizer's entry. Spawned children find it by name, so it must be at the top of a module."""
    from sglang.srt.managers.detokenizer_manager import run_detokenizer_process
    from sglang.srt.plugins import load_plugins

    load_plugins()
    _report("detokenizer", None)
    run_detokenizer_process(*args, **kwargs)


def _report(process: str, rank: int | None) -> None:
    report(process, rank, _state["settings"], _state["hooks"], _state["bases"])


def _argument(name: str, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kwargs[name] if name in kwargs else args[position]
