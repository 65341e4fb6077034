"""What a lab could not do, in three parts that the command line prints."""

from ddops.errors import DdopsError


class LabError(DdopsError):
    """Something about a lab host: what failed, why, and the command to try next (``ddops lab`` ends with 1)."""
