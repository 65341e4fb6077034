"""A service that somebody started by hand on a lab host: what every team has before it has ddops."""

import io
import subprocess
import tarfile

from ddops import overlay, quoting
from ddops.lab.errors import LabError
from ddops.lab.inside import exec_command
from ddops.lab.lab import Lab
from ddops.profile import Profile

UNIT = "sglang.service"
_OVERLAY = "/opt/by-hand/overlay"

_TEXT = """\
[Unit]
Description=SGLang, started by hand

[Service]
{environment}
ExecStart={command}
Restart=always

[Install]
WantedBy=multi-user.target
"""


def start(lab: Lab, name: str, profile: Profile, python: str, model: str) -> None:
    """Writes, enables and starts the unit on the profile's public port; it does not speculate.

    Raises LabError where the host does not take it.
    """
    settings = {"release": "by-hand", "platform": profile.overlay.platform, "drill": None}
    environment = {**profile.launch.environment, **overlay.environment(settings), "PYTHONPATH": _OVERLAY}
    text = _TEXT.format(
        environment="\n".join("Environment=" + quoting.unit_command([f"{n}={v}"]) for n, v in environment.items()),
        command=quoting.unit_command(_command(profile, python, model)),
    )
    files = {f"{_OVERLAY}/{path}": data for path, data in overlay.files().items()}
    _put(lab, name, {**files, f"/etc/systemd/system/{UNIT}": text.encode()})
    for arguments in (("daemon-reload",), ("enable", "--now", UNIT)):
        done = lab.exec(name, "systemctl", *arguments)
        if done.returncode:
            raise LabError(
                f"{UNIT} was not started on {name}", done.stderr.strip(), f"ddops lab exec {name} journalctl"
            )


def _command(profile: Profile, python: str, model: str) -> list[str]:
    words = [python, "-m", "sglang.launch_server", "--model-path", model, "--served-model-name", profile.service]
    words += ["--host", "0.0.0.0", "--port", str(profile.ports.public)]  # noqa: S104 - the public port of a lab host
    words += ["--max-running-requests", str(profile.limits.max_running)]
    for option, value in profile.launch.arguments.items():
        if value is False:
            continue
        words += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    return words


def _put(lab: Lab, name: str, files: dict[str, bytes]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(path.lstrip("/"))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    command = exec_command(lab.host(name), "tar", "-x", "-C", "/", "--no-same-owner")
    done = subprocess.run(command, input=packed.getvalue(), capture_output=True, check=False)
    if done.returncode:
        raise LabError(f"{name} did not take the files", done.stderr.decode().strip(), "is its disk full?")
