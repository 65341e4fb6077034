"""Delay and loss for one host, in user space: many kernels for virtual machines lack netem.

Started as `python -S -P -m ddops.lab.relay FOLDER KEEPER SECONDS LOSS` in the lab's network
namespace. Frames go bridge <-> tap <-> this process <-> veth, until TERM.
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import sys
import time

from ddops.lab import kernel
from ddops.lab.keeper import call
from ddops.lab.spec import HostSpec, load

_TUNSETIFF = 0x400454CA
_IFF_TAP_NO_PI = 0x1002
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17
_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_FRAME = 65536


def main(folder: str, keeper: int, delay: float, loss: float) -> None:
    spec = load(folder)
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_end.append(number))
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{keeper}/ns/net", os.O_RDONLY)
    # a relayed frame must carry a full checksum
    _set_checksum_offload(here, there, on=False)
    tap = _open_tap(spec)
    port = _open_port(spec)
    # the tap carries traffic: tell the starter, who reads one byte
    os.write(1, b"1")
    os.dup2(2, 1)
    try:
        _pump(tap, port, delay, loss, asked_to_end)
    finally:
        os.close(tap)
        with contextlib.suppress(OSError):
            _set_checksum_offload(here, there, on=True)


def _open_tap(spec: HostSpec) -> int:
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", spec.tap.encode(), _IFF_TAP_NO_PI))
    call("ip", "link", "set", spec.link, "nomaster")
    call("ip", "link", "set", spec.tap, "mtu", "1500", "master", spec.bridge, "up")
    return tap


def _open_port(spec: HostSpec) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    port.bind((spec.link, 0))
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    return port


def _pump(tap: int, port: socket.socket, delay: float, loss: float, asked_to_end: list[int]) -> None:
    waiting: list[tuple[float, int, bool, bytes]] = []
    count = 0
    while not asked_to_end:
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, to_host, frame = heapq.heappop(waiting)
            # a cut link loses frames, as a cut cable does
            with contextlib.suppress(OSError):
                if to_host:
                    port.send(frame)
                else:
                    os.write(tap, frame)
        pause = max(0.0, min(0.5, waiting[0][0] - time.monotonic())) if waiting else 0.5
        readable, _, _ = select.select([tap, port.fileno()], [], [], pause)
        for source in readable:
            # a link that went down is readable once, with an error
            with contextlib.suppress(OSError):
                frame = os.read(tap, _FRAME) if source == tap else _receive(port)
                if frame and random.random() >= loss:  # noqa: S311  # not for secrets
                    count += 1
                    heapq.heappush(waiting, (time.monotonic() + delay, count, source == tap, frame))


def _receive(port: socket.socket) -> bytes:
    """A frame from the host; empty for one that this process sent itself."""
    frame, address = port.recvfrom(_FRAME)
    return b"" if address[2] == _PACKET_OUTGOING else frame


def _set_checksum_offload(here: int, there: int, *, on: bool) -> None:
    kernel.setns(there, kernel.CLONE_NEWNET)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            value = ctypes.create_string_buffer(struct.pack("II", _ETHTOOL_STXCSUM, int(on)), 8)
            request = struct.pack("16sQ16x", b"eth0", ctypes.addressof(value))
            fcntl.ioctl(any_socket, _SIOCETHTOOL, request)
    finally:
        kernel.setns(here, kernel.CLONE_NEWNET)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
