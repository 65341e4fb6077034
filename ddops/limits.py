"""The arithmetic of a budget, shown in the plan and checked before anything moves.

With budget B the verify width is N = B + 1 query tokens for each request and step. A CUDA graph keeps the tree masks
of its largest batch, each N rows of (context + N) bytes; the KV cache keeps room for two steps of each request.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .errors import Refused, UsageError
from .profile import Drafting, Profile

_MIB = 1 << 20
_MOST_RUNNING = 1_000_000


def verify_width(budget: int) -> int:
    """Returns the query tokens for each request and verify step: the root and ``budget`` nodes."""
    return budget + 1


def mask_bytes(max_running: int, width: int, context: int) -> int:
    """Returns the bytes of the tree masks of ``max_running`` requests; ``context`` in tokens."""
    return max_running * width * (context + width)


@dataclass(frozen=True)
class Limits:
    """What a budget costs: tokens, requests, bytes on one GPU."""

    budget: int
    width: int
    max_running: int
    profile_max_running: int
    ceiling: int | None
    context: int
    mask_bytes: int
    kv_reserve_bytes: int
    accept_bound: int | None
    tile: str | None

    @property
    def lowered(self) -> bool:
        """True where the ceiling allows less than the profile wants."""
        return self.max_running < self.profile_max_running and self.max_running == self.allowed

    @property
    def allowed(self) -> int | None:
        """Returns the most requests that the ceiling allows at this width, None without one."""
        return None if self.ceiling is None else self.ceiling // self.width

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"allowed": self.allowed, "lowered": self.lowered}

    def lines(self) -> list[str]:
        """Returns the arithmetic for people, a line for each result."""
        n, running = self.width, self.max_running
        lines = [f"verify width N = {self.budget} + 1 = {n}"]
        if self.ceiling is None:
            lines.append(f"max running {running}; no ceiling of verify tokens is known here")
        else:
            lines.append(f"max running {running} = min({self.profile_max_running}, {self.ceiling} / {n})")
            if self.lowered:
                lines[-1] += f": lowered from {self.profile_max_running} to hold the ceiling"
            elif running != self.profile_max_running:
                lines[-1] = (
                    f"max running {running} was asked for; the ceiling allows {self.ceiling} / {n} = {self.allowed}"
                )
        context = self.context
        lines.append(f"mask {running} x {n} x ({context} + {n}) bytes = {self.mask_bytes / _MIB:.1f} MiB on each GPU")
        lines.append(f"KV reserve 2 x {n} tokens for each request = {self.kv_reserve_bytes / _MIB:.2f} MiB on each GPU")
        if self.tile is not None:
            lines.append(self.tile)
        if self.accept_bound is not None:
            lines.append(f"accept length at most {self.accept_bound}, the drafter's block: more budget buys breadth")
        return lines


def compute(profile: Profile, drafting: Drafting, budget: int, max_running: int | None) -> Limits:
    """Returns the arithmetic; max running is the profile's, lowered to the ceiling, or the one asked for.

    Raises Refused where more is asked for than the ceiling allows, or where it allows not one request.
    """
    width, ceiling, wanted = verify_width(budget), profile.limits.verify_tokens, profile.limits.max_running
    allowed = wanted if ceiling is None else ceiling // width
    if allowed < 1:
        raise Refused(
            f"budget {budget} is too large for one request",
            f"verify width {width} is more than the ceiling of {ceiling} verify tokens",
            f"--budget {ceiling - 1 if ceiling else 1} at most",
        )
    if max_running is not None and max_running < 1:
        raise UsageError(f"max running {max_running} serves nobody", "", "--max-running 1 or more")
    if max_running is not None and max_running > _MOST_RUNNING:
        raise UsageError(f"max running {max_running} is out of range", f"no engine runs more than {_MOST_RUNNING}")
    if max_running is not None and ceiling is not None and max_running > allowed:
        raise Refused(
            f"max running {max_running} is too much for budget {budget}",
            f"{max_running} x {width} = {max_running * width} verify tokens, the ceiling is {ceiling}",
            f"--max-running {allowed} is the most: {ceiling} / {width}",
        )
    running = min(wanted, allowed) if max_running is None else max_running
    return Limits(
        budget=budget,
        width=width,
        max_running=running,
        profile_max_running=wanted,
        ceiling=ceiling,
        context=profile.model.context,
        mask_bytes=mask_bytes(running, width, profile.model.context),
        kv_reserve_bytes=2 * width * profile.model.kv_bytes_per_token,
        accept_bound=profile.model.drafter_block if drafting.drafter else None,
        tile=_tile(profile),
    )


def _tile(profile: Profile) -> str | None:
    tile, have = profile.overlay.verify_tile, profile.hardware.shared_memory_bytes
    if tile is None:
        return None
    need = f"{tile.shared_memory_bytes / 1024:.0f} of {have / 1024:.0f} KiB of shared memory"
    return f"verify tile {tile.queries} x {tile.keys}: {need} ({profile.hardware.arch})"
