"""``ddops version``."""

from __future__ import annotations

from .. import __version__
from . import output
from .options import JsonOption


def command(as_json: JsonOption = False) -> int:
    """Print the version of ddops."""
    output.document({"version": __version__}) if as_json else output.data(f"ddops {__version__}")
    return 0
