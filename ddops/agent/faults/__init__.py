"""Faults: the table of rules, the detector that feeds lines to it, and what it finds."""

from __future__ import annotations

from .detector import Change, Detector, Scope, classify
from .incident import Evidence, Incident
from .model import PHASES, Level, Rule
from .table import RULES

__all__ = ["PHASES", "RULES", "Change", "Detector", "Evidence", "Incident", "Level", "Rule", "Scope", "classify"]
