"""Files as one archive, the same bytes for the same files."""

from __future__ import annotations

import gzip
import io
import tarfile


def archive(files: dict[str, bytes]) -> bytes:
    """Returns files by their names as one reproducible tar.gz."""
    packed = io.BytesIO()
    # gzip's header has the time of its making otherwise
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()
