"""The steps of an operation as people see them, line by line, the running one alive on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from .found import found_of
from .output import alive, draw, harmless, paint, say

_NAMES = {
    "preflight": "preflight",
    "record": "record known-good",
    "drain": "close the front",
    "stop": "stop the live release",
    "switch": "switch",
    "load": "load",
    "ready": "gate: ready",
    "smoke": "gate: smoke",
    "lossless": "gate: lossless",
    "acceptance": "gate: acceptance",
    "throughput": "gate: throughput",
    "eval-coding": "gate: eval coding",
    "eval-garbage": "gate: eval garbage",
    "eval-load": "gate: eval load",
    "measure": "measure",
    "open": "open the front",
    "soak": "soak",
    "confirm": "wait for: ddops confirm",
    "promote": "promote",
    "prune": "remove old releases",
    "end-trial": "end the trial",
    "return": "return to known-good",
    "inspect": "inspect the unit",
    "store": "store what it is",
    "settle": "settle after the boot",
    "enable": "make it boot",
    "ask": "ask the live release",
}
_WIDTH = 23


class Progress:
    """Prints events as they come. On a terminal the running step shows its last word in place."""

    def __init__(self) -> None:
        self._alive = alive(sys.stderr)
        self._running = self._said = ""
        self._began = 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        handler = getattr(self, "_on_" + event["event"].replace("-", "_"), None)
        if handler:
            handler(event)
        elif event["event"] == "alive":
            self._show()

    def _on_staging(self, event: dict[str, Any]) -> None:
        say(paint(f"  sending release {event['release']}", "dim"))

    def _on_filed(self, event: dict[str, Any]) -> None:
        say(paint(f"  operation {event['operation']} is in the host's hands; it goes on without this client", "dim"))

    def _on_step(self, event: dict[str, Any]) -> None:
        self._running, self._began = _NAMES.get(event["step"], event["step"]), time.monotonic()
        self._said = ""
        self._show()

    def _on_progress(self, event: dict[str, Any]) -> None:
        self._said = event["text"]
        self._show()

    def _on_step_done(self, event: dict[str, Any]) -> None:
        self._end(paint("ok    ", "green"), event, found_of(event))

    def _on_step_failed(self, event: dict[str, Any]) -> None:
        self._end(paint("FAILED", "red"), event, event["error"]["what"])
        if why := event["error"].get("why"):
            say(f"     {why}")

    def _on_fault(self, event: dict[str, Any]) -> None:
        self._clear()
        say(f"  {paint('fault', 'red')} {event['rule']}, written by pid {event['pid']}:")
        for line in event["line"].strip().splitlines()[-2:]:
            say(f"     {line[:200]}")
        if event["killed"]:
            say(f"     the trial was killed {event['ms_from_line_to_kill']:.0f} ms after that line")

    def _on_noticed(self, event: dict[str, Any]) -> None:
        self._clear()
        say(f"  {paint('noticed', 'yellow')} {event['rule']}: {event['why']}")

    def _on_cancelled(self, event: dict[str, Any]) -> None:
        self._clear()
        say(f"  {paint('ended', 'yellow')} by {event['by']}")

    def _on_lost(self, event: dict[str, Any]) -> None:
        self._clear()
        say(f"  {paint('lost', 'yellow')} {event['what']}: {event['why']}; the host goes on, reconnecting")

    def _on_no_room(self, event: dict[str, Any]) -> None:
        self._clear()
        say(f"  {paint('waits', 'yellow')} {event['what']}: {event['why']}")
        say(f"     {event['hint']}")

    def _end(self, mark: str, event: dict[str, Any], said: str) -> None:
        self._clear()
        name = _NAMES.get(event["step"], event["step"])
        say(f"  {name:{_WIDTH}} {mark} {event['seconds']:5.1f} s  {said}".rstrip())
        self._running = ""

    def _show(self) -> None:
        if not self._alive or not self._running:
            return
        width = shutil.get_terminal_size().columns - 1
        line = f"  {self._running:{_WIDTH}} ..     {time.monotonic() - self._began:5.1f} s  {self._said}"
        draw("\r\033[K" + harmless(line)[:width])

    def _clear(self) -> None:
        if self._alive:
            draw("\r\033[K")
