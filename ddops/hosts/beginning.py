"""Something that is begun in a thread and wanted later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Beginning(Generic[Result]):
    """Calls ``work`` at once, in a thread that does not keep the process; what it raises is raised by ``result``."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._found: list[Result] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is wanted
            self._error = error

    def result(self) -> Result:
        """Returns what the work returned, when it has; raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found[0]
