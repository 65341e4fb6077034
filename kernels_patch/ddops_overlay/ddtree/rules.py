"""A rule of DDTREE that was broken. The message begins with the rule's name, so a journal names it."""

from __future__ import annotations


class RuleBroken(RuntimeError):
    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"ddtree rule {rule} is broken: {what}")
        self.rule = rule


def require(holds: bool, rule: str, what: str) -> None:
    if not holds:
        raise RuleBroken(rule, what)
