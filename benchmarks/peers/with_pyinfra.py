"""The task as a pyinfra deploy; run by pyinfra with PEER_NAME, PEER_PORT and PEER_WORD."""

import os
from pathlib import Path

from pyinfra.operations import files, server, systemd

name, port, word = (os.environ[f"PEER_{key}"] for key in ("NAME", "PORT", "WORD"))

unit = files.template(
    src=str(Path(__file__).with_name("unit.service.j2")),
    dest=f"/etc/systemd/system/{name}.service",
    mode="644",
    word=word,
    port=port,
)
systemd.service(service=f"{name}.service", running=True, restarted=True, daemon_reload=True, _if=unit.did_change)
server.shell(commands=[f"/usr/bin/python3 -IS /opt/ask.py {port} {word}"])
