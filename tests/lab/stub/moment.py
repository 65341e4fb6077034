"""On a lab host: waits for an exact moment, then signals the supervisor's main process.

    moment.py SIGNAL DELAY_MS byte FIFO          once a byte comes through the FIFO
    moment.py SIGNAL DELAY_MS step FILE NAME     once the step log says that a step begins

It says "ready" when it waits, and ends when the signal is sent.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

UNIT = "ddops-supervisor@lab.service"


def supervisor():
    shown = subprocess.run(
        ["systemctl", "show", UNIT, "--property=MainPID", "--value"], check=True, capture_output=True, text=True
    )
    return int(shown.stdout)


def running():
    """The supervisor, waited for: a first adoption starts it only then."""
    while not (pid := supervisor()):
        time.sleep(0.01)
    return pid


def byte(fifo):
    with open(fifo, "rb", buffering=0) as source:
        source.read(1)


def step(path, name):
    while not begun(path, name):
        time.sleep(0.0005)


def begun(path, name):
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except FileNotFoundError:
        return False
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # a line that is being written
        if event["event"] == "step" and event["step"] == name:
            return True
    return False


def main():
    number, delay = getattr(signal, f"SIG{sys.argv[1]}"), float(sys.argv[2]) / 1000
    if sys.argv[3] == "byte":
        os.mkfifo(sys.argv[4])
        os.chmod(sys.argv[4], 0o666)  # noqa: S103 - the engine runs as a user of its own
    pid = supervisor()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    {"byte": byte, "step": step}[sys.argv[3]](*sys.argv[4:])
    time.sleep(delay)
    try:
        os.kill(pid or running(), number)
    except ProcessLookupError:  # a deploy that brought another agent has started it anew meanwhile
        os.kill(running(), number)


if __name__ == "__main__":
    main()
