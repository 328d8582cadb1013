"""The tables of a GTFS feed, from a zip file, a folder or bytes: rows with the place where they stand.

Tolerant of what real feeds have: a byte order mark, blanks around names, short rows, empty lines, files in a folder inside the
zip. Whatever is wrong is InvalidInput with file and line.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from hanse.model.errors import InvalidInput

FILE_BYTES_MAX: Final = 4 << 30  # unpacked: the largest stop_times.txt in use today has one
_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    IndexError,
    KeyError,
)
_PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,9}", re.ASCII)
_CLOCK: Final = re.compile(r"(\d{1,2}):([0-5]\d):([0-5]\d)", re.ASCII)
_DAY: Final = re.compile(r"(\d{4})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", re.ASCII)


class Row(Struct, frozen=True):
    """One row of a table. Every method that reads a value raises InvalidInput with the place if it cannot be read."""

    file: str
    line: int
    values: dict[str, str]

    def wrong(self, message: str) -> InvalidInput:
        return InvalidInput(message, place=f"{self.file} line {self.line}")

    def get(self, name: str) -> str:
        return self.values.get(name, "")

    def need(self, name: str) -> str:
        value = self.get(name)
        if not value:
            raise self.wrong(f"{name} is missing")
        return value

    def number(self, name: str) -> float:
        text = self.need(name)
        if not _NUMBER.fullmatch(text):
            raise self.wrong(f"{name} is {text[:40]!r}, which is no number")
        return float(text)

    def whole(self, name: str) -> int:
        text = self.need(name)
        if not _WHOLE.fullmatch(text):
            raise self.wrong(f"{name} is {text[:40]!r}, which is no whole number")
        return int(text)

    def one_of(self, name: str, allowed: str) -> str:
        """One of the digits, or nothing."""
        text = self.get(name)
        if text and (len(text) != 1 or text not in allowed):
            raise self.wrong(f"{name} is {text[:40]!r}; it can be {', '.join(allowed)}")
        return text

    def clock(self, name: str) -> int:
        """Seconds since the day of service began; there are more than 24 hours in some."""
        text = self.need(name)
        found = _CLOCK.fullmatch(text)
        if not found:
            raise self.wrong(f"{name} is {text[:40]!r}, which is no time; write it like 08:15:00")
        return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])

    def day(self, name: str) -> str:
        text = self.need(name)
        found = _DAY.fullmatch(text)
        if not found:
            raise self.wrong(f"{name} is {text[:40]!r}, which is no day; write it like 20260501")
        return f"{found[1]}-{found[2]}-{found[3]}"


class Tables:
    """The files of a feed, opened by `open_feed`."""

    def __init__(self, place: str, folder: Path | None, archive: zipfile.ZipFile | None) -> None:
        self._place = place
        self._folder = folder
        self._archive = archive
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist() if archive else ():
            if not info.is_dir() and not info.filename.startswith("__MACOSX"):
                self._members.setdefault(info.filename.rpartition("/")[2].lower(), info)

    def has(self, file: str) -> bool:
        return (self._folder / file).is_file() if self._folder else file in self._members

    def rows(self, file: str, *, optional: bool = False) -> Iterator[Row]:
        if not self.has(file):
            if optional:
                return
            raise InvalidInput(f"there is no {file} in the feed", place=self._place)
        line = 0
        try:
            with self._open(file) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
                reader = csv.reader(text)
                names = [name.strip() for name in next(reader, [])]
                for fields in reader:
                    line = reader.line_num
                    if any(fields):
                        yield Row(file, line, {name: value.strip() for name, value in zip(names, fields, strict=False)})
        except csv.Error as error:
            raise InvalidInput(f"it is no CSV: {error}", place=f"{file} line {line + 1}") from error
        except UnicodeDecodeError as error:
            raise InvalidInput("it is not UTF-8; save it as UTF-8", place=f"{file} after line {line}") from error
        except InvalidInput:
            raise
        except _BROKEN as error:
            raise InvalidInput(f"it cannot be read: {error}", place=f"{self._place}: {file}") from error

    @contextmanager
    def _open(self, file: str) -> Iterator[IO[bytes]]:
        if self._folder:
            with (self._folder / file).open("rb") as raw:
                yield raw
            return
        assert self._archive is not None
        info = self._members[file]
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _PACKED:
            raise InvalidInput("it is encrypted or packed in an unusual way; pack it again with zip", place=file)
        if info.file_size > FILE_BYTES_MAX:
            raise InvalidInput(f"it has more than {FILE_BYTES_MAX:,} bytes", place=file)
        with self._archive.open(info) as packed:
            yield packed


@contextmanager
def open_feed(place: str, content: bytes | None = None) -> Iterator[Tables]:
    """A feed by the path of a zip file or a folder, or the bytes of a zip file (then `place` is where they came from)."""
    path = Path(place)
    if content is None and _is(path.is_dir):
        yield Tables(place, path, None)
        return
    if content is None and not _is(path.is_file):
        raise InvalidInput("there is no such file or folder; give the zip file of a GTFS feed, or a folder of it", place=place)
    try:
        archive = zipfile.ZipFile(path if content is None else io.BytesIO(content))
        tables = Tables(place, None, archive)
    except _BROKEN as error:
        raise InvalidInput(f"it is no zip file of a GTFS feed: {error}", place=place) from error
    with archive:
        yield tables


def _is(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except (OSError, ValueError):  # a name that no file can have
        return False
