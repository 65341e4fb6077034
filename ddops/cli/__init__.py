"""The command line: one module a verb. This one puts them together and imports none of them early."""

from __future__ import annotations

import gc
import os
import signal
import sys

from .. import __version__
from . import first_word

_AGAIN_S = 0.5


def main() -> None:
    """Runs ``ddops``; ends the process with the documented exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        try:
            sys.stdout.write(f"ddops {__version__}\n")
            sys.stdout.flush()
        except OSError as error:
            sys.stderr.write(f"error: the output could not be written\n  {error.strerror}\n")
            os._exit(1)
        return
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this, with >&-
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115 - as long as the process
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGALRM, _interrupt)
    _start_fast()
    first_word.say(sys.argv[1:])
    try:
        from .app import end, run
    except KeyboardInterrupt:
        os._exit(130)
    # at once: to take the modules apart and to join paramiko's threads would take 0.1 s more
    os._exit(end(run(sys.argv[1:])))


def _start_fast() -> None:
    """Sets Python up for a command that ends soon: most of its time goes into imports, beside a connection."""
    gc.set_threshold(50_000, 20, 20)  # what an import makes stays; to look through it for garbage takes a tenth of it
    sys.setswitchinterval(0.0005)  # else each answer of the host waits 5 ms for a module that is being imported
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it looks through everything installed for them


def _interrupt(*_: object) -> None:
    """Interrupts; a second Ctrl-C must not cut off what the first one has to tell.

    Python may drop what is raised here, in a callback of an import for one: it comes again until ``app.run`` has it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, _AGAIN_S)
    raise KeyboardInterrupt
