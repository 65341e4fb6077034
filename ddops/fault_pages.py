"""The pages of docs/faults, made from the table of rules; ``ddops faults explain`` prints the same.

python -m ddops.fault_pages docs/faults
"""

from __future__ import annotations

import sys
from pathlib import Path

from .agent.faults import RULES
from .agent.faults.model import IGNORE, PAGE, RESTART, ROLLBACK, Rule
from .fault_classes import CLASSES, KINDS

_IN_A_TRIAL = {
    ROLLBACK: "kills the engine, starts known-good, and opens the front after right answers",
    PAGE: "writes it into the operation's record and goes on: the gates decide",
    IGNORE: "does nothing",
}
_PROMOTED = {
    RESTART: "does what `watch.on_fault` says: starts the same release again (b300, rtx-pro-6000, lab), rolls back, or"
    " calls somebody",
    PAGE: "calls somebody and changes nothing else",
    IGNORE: "does nothing",
}


def page(name: str) -> str:
    """Returns the page of one class of faults, as Markdown."""
    fault = CLASSES[name]
    kind = KINDS[fault.kind]
    rules = [rule for rule in RULES.values() if rule.fault == name]
    parts = [
        f"# {fault.title}",
        f"Class `{name}`. {fault.sure}",
        "## What was seen",
        *(_section(rule) for rule in rules),
        "## Check",
        _steps(kind.check),
        "## Do",
        _steps(kind.do),
        "## Verify",
        _steps(kind.verify),
        "## Call somebody",
        f"{kind.escalate[0].upper()}{kind.escalate[1:]}.",
    ]
    return "\n\n".join(parts) + "\n"


def _section(rule: Rule) -> str:
    seen = "A line like" if rule.looks_like else "Told by no line, but seen by the supervisor:"
    often = f" It counts at the {rule.repeat}th time within ten minutes." if rule.repeat > 1 else ""
    return (
        f'### <a name="{rule.name}"></a>{rule.name}\n\n'
        f"{rule.why[0].upper()}{rule.why[1:]}.{often}\n\n"
        f"- In a trial ddops {_IN_A_TRIAL[rule.trial]}. After promotion it {_PROMOTED[rule.promoted]}.\n"
        f"- {seen} `{_code(rule.example)}`\n"
        f"- Not taken for it: `{_code(rule.look_alike)}`"
    )


def _code(text: str) -> str:
    return text.replace("`", "'").replace("\n", " ⏎ ")


def _steps(steps: tuple[str, ...]) -> str:
    return "\n".join(f"{number}. {step[0].upper()}{step[1:]}." for number, step in enumerate(steps, 1))


def index() -> str:
    """Returns the page that lists all classes."""
    rows = []
    for name, fault in CLASSES.items():
        rules = [rule for rule in RULES.values() if rule.fault == name]
        trial, promoted = (sorted({getattr(rule, phase) for rule in rules}) for phase in ("trial", "promoted"))
        rows.append(f"| [{fault.title}]({name}.md) | `{name}` | {', '.join(trial)} | {', '.join(promoted)} |")
    head = (
        "# Faults\n\nA page for each class of fault. `ddops faults list` shows the rules, `ddops faults explain RULE`"
        " prints a page,\n`ddops faults classify` judges a journal. Made from the table of rules by"
        " `python -m ddops.fault_pages docs/faults`.\n\n"
        "| fault | class | in a trial | after promotion |\n| --- | --- | --- | --- |\n"
    )
    return head + "\n".join(rows) + "\n"


def pages() -> dict[str, str]:
    """Returns every page by its file name."""
    return {"README.md": index(), **{f"{name}.md": page(name) for name in CLASSES}}


def write(folder: Path) -> None:
    """Writes the pages into a folder and removes those of classes that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
