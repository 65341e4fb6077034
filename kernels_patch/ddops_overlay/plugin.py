"""The entry points. SGLang calls `load` in the main process and in each scheduler, and `platform` wherever
it first asks for the current platform."""

from __future__ import annotations

import os

from . import architecture, drills, processes
from .cpu import plan as cpu
from .ddtree import plan as ddtree
from .hooks import Hook, register
from .refuse import refuse
from .settings import Settings, SettingsError, read


def load() -> None:
    """Entry point of group sglang.srt.plugins."""
    settings = _settings()
    hooks = [*_platform_hooks(settings), *_drill_hooks(settings), *_architecture_hooks(settings)]
    bases = list(cpu.BASES) if settings.platform == "cpu" else []
    if settings.ddtree:
        ddtree.register(settings.ddtree)
        bases += ddtree.BASES
        hooks += ddtree.hooks()
    register(processes.arm(settings, hooks, bases))


def platform() -> str | None:
    """Entry point of group sglang.srt.platforms: the platform's class, or None for SGLang's own choice."""
    settings = _settings()
    return cpu.activate() if settings.platform == "cpu" else None


def _platform_hooks(settings: Settings) -> list[Hook]:
    if settings.platform != "cpu":
        return []
    return [*cpu.hooks(), *(cpu.drafter_hooks() if settings.ddtree else [])]


def _drill_hooks(settings: Settings) -> list[Hook]:
    return [drills.hook(settings.drill)] if settings.drill else []


def _architecture_hooks(settings: Settings) -> list[Hook]:
    return [architecture.hook(settings)] if settings.arch else []


def _settings() -> Settings:
    try:
        return read(os.environ)
    except SettingsError as error:
        refuse(str(error))
