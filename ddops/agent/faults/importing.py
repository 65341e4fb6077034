"""Journals from files: ``journalctl -o json --all`` in all its shapes, and plain lines of any log.

Nothing is dropped: what is no JSON object is a plain line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..cutlines import Streams
from ..journal import Entry

_CRI = re.compile(rb"^(\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) )([FP]) ?")
_ABOUT = ("UNIT", "OBJECT_SYSTEMD_UNIT", "COREDUMP_UNIT", "USER_UNIT")
_LOGGED = ("log", "message", "msg", "line", "MESSAGE")  # docker's json-file, fluentd, common JSON loggers


def entries(lines: Iterable[bytes], *, plain: bool = False) -> Iterator[Entry]:
    """Yields the entries of a journal, one for each line of the input."""
    streams, partial = Streams(), b""
    for raw in lines:
        line = raw.rstrip(b"\r\n")
        if line.startswith(b"\x1e"):  # journalctl -o json-seq
            line = line[1:]
        if line.startswith(b"{") and (fields := _object(line)) is not None:
            if (not plain and "MESSAGE" in fields) or any(
                key in fields for key in ("__CURSOR", "_TRANSPORT", "PRIORITY")
            ):
                yield _entry(fields, streams)
                continue
            logged = next((fields[key] for key in _LOGGED if isinstance(fields.get(key), str)), None)
            if logged is not None:
                line = logged.rstrip("\n").encode(errors="replace")
        cri = _CRI.match(line)
        if cri and cri.group(2) == b"P":
            partial += line[cri.end() :] if partial else line
            continue
        if partial:
            line, partial = partial + (line[cri.end() :] if cri else line), b""
        yield _plain(line)
    if partial:
        yield _plain(partial)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _plain(line: bytes) -> Entry:
    return Entry(line.decode(errors="replace"), 0, "", 0, "", "", "")


def _entry(fields: dict[str, Any], streams: Streams) -> Entry:
    raw = fields.get("MESSAGE")
    get = fields.get
    stream = get("_STREAM_ID")
    cut = get("_LINE_BREAK")
    if isinstance(raw, str) and cut is None and not streams.cut:
        message = raw
    else:
        stream_id = bytes_of(stream)
        message = streams.join(stream_id, bytes_of(raw), bytes_of(cut)).decode(errors="replace")
    return Entry(
        message,
        _number(get("__REALTIME_TIMESTAMP")),
        text_of(get("__CURSOR")),
        _number(get("_PID")),
        text_of(get("SYSLOG_IDENTIFIER")),
        text_of(get("_TRANSPORT")),
        text_of(get("_SYSTEMD_USER_UNIT", get("_SYSTEMD_UNIT"))),
        text_of(get("_SYSTEMD_INVOCATION_ID")),
        next((text_of(fields[key]) for key in _ABOUT if key in fields), ""),
        text_of(stream),
        raw is None and bytes_of(cut) == b"line-max",
    )


def bytes_of(value: Any) -> bytes:
    """Returns a field's bytes: a string, an array of byte values, null, or a list of these if it came twice."""
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    if isinstance(value, list):
        if all(type(item) is int and 0 <= item < 256 for item in value):
            return bytes(value)
        return b"\n".join(bytes_of(item) for item in value)
    return b"" if value is None else str(value).encode(errors="replace")


def text_of(value: Any) -> str:
    """Returns a field's text; of a field that came twice the first."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value and not all(type(item) is int for item in value):
        value = value[0]
    return bytes_of(value).decode(errors="replace")


def _number(value: Any) -> int:
    text = text_of(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
