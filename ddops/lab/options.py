"""What a user may choose for a host, checked before anything is made."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from ddops.lab.errors import LabError

_SIZE = re.compile(r"[1-9][0-9]*[KMG]?")


@dataclass(frozen=True)
class Disk:
    """The host's disk. tmpfs is in memory and survives crashes; ext4 is a file, and fsync is real."""

    kind: str
    size: str

    @classmethod
    def parse(cls, text: str) -> "Disk":
        """From tmpfs:SIZE or ext4:SIZE, with K, M or G; raises LabError."""
        kind, _, size = text.partition(":")
        if kind not in ("tmpfs", "ext4") or not _SIZE.fullmatch(size):
            raise LabError(f"not a disk: {text!r}", "a kind and a size are wanted", "write tmpfs:2G or ext4:4G")
        return cls(kind, size)

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}"


@dataclass(frozen=True)
class Bind:
    """A folder or file of this machine that hosts see, read-only, at `target`."""

    source: Path
    target: str

    @classmethod
    def parse(cls, text: str) -> "Bind":
        """From SRC or SRC:DST; raises LabError where SRC is missing or DST is not absolute."""
        source, _, target = text.partition(":")
        return cls(Path(source).absolute(), target or str(Path(source).absolute())).checked()

    def checked(self) -> "Bind":
        """Itself; raises LabError where it cannot be mounted."""
        if not self.source.exists():
            raise LabError(f"cannot bind {self.source}", "it does not exist", "check the path")
        if not self.target.startswith("/"):
            raise LabError(f"cannot bind to {self.target!r}", "it is not an absolute path", "write SRC:/absolute/path")
        return self


@dataclass(frozen=True)
class HostOptions:
    """How a new host is made; a host that exists keeps what it was made with."""

    disk: Disk = field(default_factory=lambda: Disk("tmpfs", "2G"))
    memory: str = ""
    """Limit for the whole host, such as 512M; empty for none."""
    binds: tuple[Bind, ...] = ()
    reboot_delay: float = 0.0
    """Seconds that the host stays away during a reboot."""

    def __post_init__(self) -> None:
        if self.memory and not _SIZE.fullmatch(self.memory):
            raise LabError(f"not a memory limit: {self.memory!r}", "a size with K, M or G is wanted", "write 512M")
        if self.reboot_delay < 0:
            raise LabError("not a reboot delay", "it is negative", "write seconds, such as 30")
        for bind in self.binds:
            bind.checked()
