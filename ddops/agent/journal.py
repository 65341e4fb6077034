"""The journal, read through libsystemd: ``journalctl -f`` is up to half a second late."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

from .cutlines import Streams
from .errors import AgentError

_LOCAL_ONLY = 1
_LOOK_BACK = 50  # entries before a cursor: a line that was cut there is joined all the same


class JournalError(AgentError):
    code = "journal"


class Entry(NamedTuple):
    """One line of the journal. ``time_us`` is the time of its writing, in microseconds, by the host's clock.

    ``about`` is the unit that systemd, journald or the core dumper speaks of. ``unreadable``: the first
    part of a cut line has no text that can be read.
    """

    message: str
    time_us: int
    cursor: str
    pid: int
    identifier: str
    transport: str
    unit: str
    invocation: str = ""
    about: str = ""
    stream: str = ""
    unreadable: bool = False


def _library() -> ctypes.CDLL:
    try:
        lib = ctypes.CDLL("libsystemd.so.0", use_errno=True)
    except OSError as error:
        raise JournalError("libsystemd is not on this host", str(error), "install libsystemd0") from None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    lib.sd_journal_open.argtypes = [ctypes.POINTER(pointer), ctypes.c_int]
    lib.sd_journal_close.argtypes = [pointer]
    lib.sd_journal_close.restype = None
    lib.sd_journal_add_match.argtypes = [pointer, ctypes.c_char_p, size]
    for name in ("seek_head", "next", "previous", "process", "get_fd", "seek_tail", "add_disjunction"):
        getattr(lib, f"sd_journal_{name}").argtypes = [pointer]
    lib.sd_journal_set_data_threshold.argtypes = [pointer, size]
    lib.sd_journal_seek_cursor.argtypes = [pointer, ctypes.c_char_p]
    lib.sd_journal_test_cursor.argtypes = [pointer, ctypes.c_char_p]
    lib.sd_journal_previous_skip.argtypes = [pointer, ctypes.c_uint64]
    lib.sd_journal_get_data.argtypes = [
        pointer,
        ctypes.c_char_p,
        ctypes.POINTER(pointer),
        ctypes.POINTER(size),
    ]
    lib.sd_journal_get_realtime_usec.argtypes = [pointer, ctypes.POINTER(ctypes.c_uint64)]
    lib.sd_journal_get_cursor.argtypes = [pointer, ctypes.POINTER(ctypes.c_char_p)]
    return lib


class Journal:
    """Follows the entries that match every one of the ``FIELD=value`` matches.

    Matches of one field are alternatives; "+" separates groups of which one must match. Reading begins at
    the oldest entry, so that a reader that was away misses nothing; ``last`` begins that many entries before
    the end instead, and ``after`` behind the entry with that cursor. ``gap`` tells that this entry is there
    no more: what came between it and the first entry that is read may be lost.
    """

    def __init__(self, matches: list[str], last: int | None = None, after: str = "") -> None:
        self._lib = _library()
        self._handle = ctypes.c_void_p()
        self._streams = Streams()
        self.gap = False
        self._check(self._lib.sd_journal_open(ctypes.byref(self._handle), _LOCAL_ONLY), "open")
        self._check(self._lib.sd_journal_set_data_threshold(self._handle, 0), "set_data_threshold")
        for match in matches:
            data = match.encode()
            if match == "+":
                self._check(self._lib.sd_journal_add_disjunction(self._handle), "add_disjunction")
            else:
                self._check(self._lib.sd_journal_add_match(self._handle, data, len(data)), "add_match")
        # made before the first read, so that no entry falls between reading and waiting
        self.fd = self._check(self._lib.sd_journal_get_fd(self._handle), "get_fd")
        if after:
            self._seek_behind(after)
        elif last is None:
            self._check(self._lib.sd_journal_seek_head(self._handle), "seek_head")
        else:
            self._check(self._lib.sd_journal_seek_tail(self._handle), "seek_tail")
            if self._check(self._lib.sd_journal_previous_skip(self._handle, last + 1), "previous_skip") <= last:
                self._check(self._lib.sd_journal_seek_head(self._handle), "seek_head")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._handle:
            self._lib.sd_journal_close(self._handle)
            self._handle = ctypes.c_void_p()

    def entries(self) -> Iterator[Entry]:
        """Yields what has come since the last call, without waiting."""
        self._check(self._lib.sd_journal_process(self._handle), "process")
        while self._check(self._lib.sd_journal_next(self._handle), "next") > 0:
            yield self._entry()

    def _seek_behind(self, cursor: str) -> None:
        at = cursor.encode()
        self._check(self._lib.sd_journal_seek_cursor(self._handle, at), "seek_cursor")
        self.gap = not (
            self._check(self._lib.sd_journal_next(self._handle), "next") > 0
            and self._check(self._lib.sd_journal_test_cursor(self._handle, at), "test_cursor") > 0
        )
        if self.gap:
            self._check(self._lib.sd_journal_seek_cursor(self._handle, at), "seek_cursor")
            return
        back = self._check(self._lib.sd_journal_previous_skip(self._handle, _LOOK_BACK), "previous_skip")
        for _ in range(back + 1):
            self._streams.join(self._data("_STREAM_ID"), self._data("MESSAGE"), self._data("_LINE_BREAK"))
            if self._check(self._lib.sd_journal_test_cursor(self._handle, at), "test_cursor") > 0:
                return
            self._check(self._lib.sd_journal_next(self._handle), "next")

    def _entry(self) -> Entry:
        stamp = ctypes.c_uint64()
        self._check(self._lib.sd_journal_get_realtime_usec(self._handle, ctypes.byref(stamp)), "get_realtime_usec")
        stream = self._data("_STREAM_ID")
        message = self._streams.join(stream, self._data("MESSAGE"), self._data("_LINE_BREAK"))
        about = (
            self._data("UNIT") or self._data("OBJECT_SYSTEMD_UNIT") or self._data("COREDUMP_UNIT")
            if not stream
            else b""
        )
        return Entry(
            message=message.decode(errors="replace"),
            time_us=stamp.value,
            cursor=self._cursor(),
            pid=int(self._data("_PID") or 0),
            identifier=self._data("SYSLOG_IDENTIFIER").decode(errors="replace"),
            transport=self._data("_TRANSPORT").decode(errors="replace"),
            unit=self._data("_SYSTEMD_UNIT").decode(errors="replace"),
            invocation=self._data("_SYSTEMD_INVOCATION_ID").decode(errors="replace"),
            about=about.decode(errors="replace"),
            stream=stream.decode(errors="replace"),
        )

    def _data(self, name: str) -> bytes:
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        got = self._lib.sd_journal_get_data(self._handle, name.encode(), ctypes.byref(data), ctypes.byref(size))
        if got < 0:
            return b""  # a field that this entry lacks
        return ctypes.string_at(data, size.value)[len(name) + 1 :]

    def _cursor(self) -> str:
        text = ctypes.c_char_p()
        self._check(self._lib.sd_journal_get_cursor(self._handle, ctypes.byref(text)), "get_cursor")
        value = (text.value or b"").decode()
        _free(text)
        return value

    def _check(self, result: int, what: str) -> int:
        if result < 0:
            raise JournalError(f"sd_journal_{what}: error {-result}")
        return int(result)


_libc = ctypes.CDLL(None)
_libc.free.argtypes = [ctypes.c_void_p]


def _free(text: ctypes.c_char_p) -> None:
    _libc.free(ctypes.cast(text, ctypes.c_void_p))
