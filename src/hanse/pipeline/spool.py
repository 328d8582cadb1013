"""The spool: a folder of files that a receiver fills and Spark reads, each file once.

A message is safe when `Spool.flush` has returned: written, synced, and moved to where Spark looks for it under a name that no
other file ever has. `Envelope` is what one line of such a file is.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

LINES_PER_FILE: Final = 10_000
_encode = msgspec.json.Encoder().encode


class Envelope(Struct, frozen=True):
    """A line as it came: from where (a topic, a URL), and when."""

    place: str
    at_us: int
    line: str


class Spool:
    """Threads may share it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.written = 0  # lines, since this was made
        self._lock = threading.Lock()
        self._files = 0

    def write(self, lines: list[tuple[str, str]], at_us: int | None = None) -> None:
        """Places and lines; they are safe when this returns."""
        at_us = time.time_ns() // 1_000 if at_us is None else at_us
        for first in range(0, len(lines), LINES_PER_FILE):
            part = lines[first : first + LINES_PER_FILE]
            self._write(b"".join(_encode(Envelope(place, at_us, line)) + b"\n" for place, line in part))
            self.written += len(part)

    def _write(self, content: bytes) -> None:
        with self._lock:
            self._files += 1
            name = f"{time.time_ns():020d}-{os.getpid()}-{self._files:06d}.jsonl"
        partial = self.folder / f"_{name}"  # Spark passes over names that begin so
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.folder / name)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
