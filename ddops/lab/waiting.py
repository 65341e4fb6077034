"""Waits for something to become true, for a limited time."""

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], seconds: float, every: float = 0.02) -> bool:
    """Whether `condition` came true within `seconds`; it is asked at least once."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
