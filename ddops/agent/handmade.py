"""A unit that somebody else wrote: whether ddops can take it over and bring it back, told before anything is made."""

from __future__ import annotations

import contextlib
from pathlib import Path

from . import processes, systemd
from .errors import Refused
from .layout import UNITS
from .systemd import Unit

_CONTAINERS = {"docker", "podman", "nerdctl", "apptainer", "singularity", "conmon", "crun", "runc"}
_PULLS = ("WantedBy", "RequiredBy", "BoundBy", "UpheldBy")
_MODEL = ("--model-path", "--model")
_DRAFTER = ("--speculative-draft-model-path", "--speculative-draft-model")


def must_be_adoptable(unit: Unit) -> None:
    """Raises Refused for a unit that could not be stopped for a trial, or not be brought back as it runs now."""
    shape = systemd.properties(unit.name, "Id", "TriggeredBy", *_PULLS)
    if (own := shape.get("Id") or unit.name) != unit.name:
        raise Refused(
            f"{unit.name} is another name of {own}", "what is adopted is a unit by its own name", f"ddops adopt {own}"
        )
    if "@" in unit.name:
        copy = f"{UNITS}/{unit.name.replace('@', '-')}"
        raise Refused(
            f"{unit.name} is an instance of a template",
            "what boots is a link to the unit, and systemd takes none to an instance",
            f"make a unit of its own: systemctl cat {unit.name} > {copy}, with {_instance(unit.name)} for each %i",
        )
    if _gone_at_boot(unit.fragment):
        raise Refused(
            f"the text of {unit.name} is gone at the next boot", unit.fragment or "no file", f"put it under {UNITS}"
        )
    if gone := [path for path in unit.drop_ins if _gone_at_boot(path)]:
        raise Refused(
            f"a part of {unit.name} is gone at the next boot",
            gone[0],
            f"put it under {UNITS}/{unit.name}.d, then systemctl daemon-reload; systemctl cat {unit.name} shows all",
        )
    if unit.needs_reload:
        raise Refused(f"{unit.name} runs from an older text than its file has", "", "systemctl daemon-reload")
    if starter := shape.get("TriggeredBy", "").split():
        raise Refused(
            f"{starter[0]} starts {unit.name}",
            "it would hold the port, or start the unit again beside a trial",
            f"systemctl disable --now {starter[0]}, then restart {unit.name} by hand so that it serves alone",
        )
    _pulled_in_by_nobody(unit, [name for key in _PULLS for name in shape.get(key, "").split()])
    _no_container(unit)
    if missing := missing_environment(unit.name):
        raise Refused(
            f"{unit.name} would not start again",
            f"{missing}, which its EnvironmentFile= names, is not there",
            "put it back, or begin its name with -",
        )


def enablement(unit: str) -> list[str]:
    """Returns the links under /etc that have a unit started at the boot."""
    links = [*UNITS.glob(f"*.wants/{unit}"), *UNITS.glob(f"*.requires/{unit}")]
    return sorted(str(link) for link in links if link.is_symlink())


def arguments(unit: Unit) -> tuple[int, list[str]]:
    """Returns the process that is the engine, and its arguments: the main one, or one that a wrapper has started.

    Raises Refused where no process of the unit is a Python.
    """
    found = []
    for pid in _processes(unit):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            argv = _argv(pid)
            if Path(argv[0]).name.startswith("python"):
                found.append((pid, argv))
    if not found:
        raise Refused(
            f"no process of {unit.name} is a Python",
            f"its main process is {processes.describe(unit.main_pid)}",
            "name the unit that runs SGLang",
        )
    return next((one for one in found if model(one[1])), found[0])


def must_answer_without_a_key(unit: Unit, argv: list[str]) -> None:
    """Raises Refused for an engine that wants an API key: ddops keeps none, so it could prove no answer."""
    if option(argv, "--api-key") is not None:
        raise Refused(
            f"{unit.name} answers only to an API key",
            "it is in the process list and, by SGLang itself, in the journal; ddops asks without one",
            "take --api-key out and have the proxy in front ask for it, then restart the unit",
        )


def option(argv: list[str], name: str) -> str | None:
    """Returns an option's value, None where it is not given."""
    for at, argument in enumerate(argv):
        if argument == name and at + 1 < len(argv):
            return argv[at + 1]
        if argument.startswith(name + "="):
            return argument[len(name) + 1 :]
    return None


def model(argv: list[str]) -> str | None:
    """Returns the folder of the model that the arguments name."""
    return _any_of(_MODEL, argv)


def drafter(argv: list[str]) -> str | None:
    """Returns the folder of the drafter that the arguments name."""
    return _any_of(_DRAFTER, argv)


def _any_of(names: tuple[str, ...], argv: list[str]) -> str | None:
    return next((found for name in names if (found := option(argv, name))), None)


def missing_environment(unit: str) -> str:
    """Returns an EnvironmentFile= without which systemd would not start the unit, '' where all are there."""
    shown = systemd.properties(unit, "EnvironmentFiles").get("EnvironmentFiles", "")
    for line in shown.splitlines():
        path, _, how = line.rpartition(" (ignore_errors=")
        if how == "no)" and not any(c in path for c in "*?[") and not Path(path).exists():
            return path
    return ""


def _instance(name: str) -> str:
    return name.partition("@")[2].rpartition(".service")[0]


def _gone_at_boot(path: str) -> bool:
    return not path or path.startswith("/run/")


def _processes(unit: Unit) -> list[int]:
    """Returns a unit's processes, the main one first."""
    return [unit.main_pid, *sorted(processes.pids(unit.cgroup) - {unit.main_pid})]


def _argv(pid: int) -> list[str]:
    return (Path(f"/proc/{pid}") / "cmdline").read_bytes().decode().rstrip("\0").split("\0")


def _pulled_in_by_nobody(unit: Unit, pullers: list[str]) -> None:
    """Raises Refused where another unit starts this one, by what is no link under /etc: that cannot be moved."""
    moved = {Path(link).parent.name.rpartition(".")[0] for link in enablement(unit.name)}
    if left := [name for name in pullers if name not in moved]:
        found = next((p for p in _links(unit.name, left[0]) if p.exists()), None)
        raise Refused(
            f"{left[0]} starts {unit.name}",
            f"{found or 'its own text'} says so: at a boot both would run, the unit and what was deployed after it",
            f"rm {found}, then systemctl enable {unit.name}; systemctl daemon-reload"
            if found
            else f"take {unit.name} out of systemctl cat {left[0]}, then systemctl daemon-reload",
        )


def _links(unit: str, puller: str) -> list[Path]:
    folders = ("/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
    return [Path(folder, f"{puller}.{kind}", unit) for folder in folders for kind in ("wants", "requires", "upholds")]


def _no_container(unit: Unit) -> None:
    for pid in _processes(unit):
        with contextlib.suppress(OSError):
            name = (Path(f"/proc/{pid}") / "comm").read_text().strip()
            if name in _CONTAINERS:
                raise Refused(
                    f"{unit.name} runs a container ({name}, pid {pid})",
                    "its engine, environment and model are not the host's: ddops could not prove what it returns to",
                    "run SGLang of an environment on the host in a unit, adopt that one",
                )
