"""The one exception that this room raises on purpose."""


class LabError(Exception):
    """What failed, why, and what to type next; the CLI prints the three."""

    def __init__(self, what: str, why: str, next: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why
        self.next = next
