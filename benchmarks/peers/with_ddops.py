"""The task with ddops' primitives: its SSH host, its quoting, its agent's systemd and durable files.

Run as `python -m benchmarks.peers.with_ddops SITE HOST NAME PORT WORD`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jinja2

from ddops import hosts, site

# the agent lies on the host already, as it does after any deploy
_APPLY = """
import sys
sys.path.insert(0, "/var/lib/ddops/lab/agent.pyz")
from agent import systemd
name, port, word = sys.argv[1:]
if systemd.install(name + ".service", sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))):
    systemd.daemon_reload()
    systemd.systemctl("restart", name + ".service")
sys.argv = ["ask", port, word]
exec(compile(open("/opt/ask.py").read(), "ask", "exec"))
"""  # what goes wrong is said on stderr, by the host's Python


def main(site_file: str, host: str, name: str, port: str, word: str) -> int:
    """Does the task over one channel; returns the exit code."""
    remote = hosts.connector(host, site.choose(site.load(Path(site_file)), host)[1], lambda _: None)()
    template = jinja2.Template(Path(__file__).with_name("unit.service.j2").read_text(), keep_trailing_newline=True)
    text = template.render(word=word, port=port).encode()
    words = ["/usr/bin/python3", "-IS", "-c", _APPLY, name, port, word]
    channel = remote.open([*remote.as_root, *words])
    channel.send(f"{len(text)}\n".encode() + text)
    channel.line(30)
    if said := channel.errors():
        sys.stderr.write(said + "\n")
        sys.stderr.flush()
        return 1
    return 0


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))  # as ddops itself ends
