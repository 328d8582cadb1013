"""The spool: a folder of files that a receiver fills and Spark reads, each file once.

A line is safe, whatever crashes, when `append` has returned; Spark sees it after `publish`, which moves the file that is being
written to a name that no other file ever has. What a receiver that was killed has left is published by the next one. One
receiver at a time may fill a folder. `Envelope` is what a line of such a file is.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput

LINES_PER_FILE: Final = 10_000
_LOCK: Final = "_lock"  # Spark passes over names that begin like this
_encode = msgspec.json.Encoder().encode


class Envelope(Struct, frozen=True):
    """A line as it came: from where (a topic, a URL), and when."""

    place: str
    at_us: int
    line: str


class Spool:
    """Threads may share it. Raises InvalidInput if another process fills the folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.lines = 0  # that are safe, since this was made
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._held = (self.folder / _LOCK).open("ab")
        except OSError as error:
            raise InvalidInput(f"the folder {self.folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._held.close()
            raise InvalidInput(f"another receiver fills {self.folder}; give each a folder of its own") from error
        self._guard = threading.Lock()
        self._file: BinaryIO | None = None
        self._in_file = 0
        for left in sorted(self.folder.glob("_*.jsonl")):
            _cut_to_whole_lines(left)
            self._move(left)

    def append(self, lines: list[tuple[str, str]], at_us: int | None = None) -> None:
        """Places and lines, of this moment if no other is said; they are safe when this returns."""
        if not lines:
            return
        at_us = time.time_ns() // 1_000 if at_us is None else at_us
        with self._guard:
            if self._file is None:
                self._file = (self.folder / f"_{time.time_ns():020d}-{os.getpid()}.jsonl").open("xb")
            self._file.write(b"".join(_encode(Envelope(place, at_us, line)) + b"\n" for place, line in lines))
            self._file.flush()
            os.fsync(self._file.fileno())
            self.lines += len(lines)
            self._in_file += len(lines)
            if self._in_file >= LINES_PER_FILE:
                self._publish()

    def publish(self) -> None:
        """Let Spark see what is there."""
        with self._guard:
            self._publish()

    def close(self) -> None:
        self.publish()
        self._held.close()

    def _publish(self) -> None:
        if self._file is not None:
            self._file.close()
            self._move(Path(self._file.name))
            self._file = None
            self._in_file = 0

    def _move(self, file: Path) -> None:
        if file.stat().st_size:
            file.replace(file.with_name(file.name[1:]))
        else:
            file.unlink()
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _cut_to_whole_lines(file: Path) -> None:
    """A line that was not written to its end was not safe yet, and comes again."""
    content = file.read_bytes()
    if not content.endswith(b"\n"):
        with file.open("rb+") as out:
            out.truncate(content.rfind(b"\n") + 1)
