"""The files of one table of the lake: which of them count, and how small ones become few large ones. Knows nothing of Spark.

A table is a folder:

    incoming/                 what a stream has written: Parquet in date=…/type=…, and Spark's own log of what is committed
    data/                     what compaction has made of it, in the same folders
    versions/00000007.json    which files of data count, and which of incoming they stand for; the newest is what holds

**Reading.** What counts is the files that the newest version names, and those of `incoming` that Spark's log names and that the
version does not stand for (`visible`). A reader takes that list once and reads those files: whatever happens meanwhile, they stay
for a while (`GRACE_S`).

**Changing.** New files are written aside and put in place; then a version is published, whole or not at all, and only if nobody
else has published the same number. Before that moment nothing has changed, after it everything has. Files that do not count any
more are removed by whoever changes the table next, once the grace is over. A process that is killed leaves files that nobody
names; these are removed the same way. So the grace must be longer than any query or compaction takes.

Public names: `Table(folder)` with `visible`, `compact`, `expire`, `summary`; `File`; `tables(lake)`.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

INCOMING: Final = "incoming"
DATA: Final = "data"
VERSIONS: Final = "versions"
CHECKPOINTS: Final = "checkpoints"  # beside the tables
GRACE_S: Final = 3600.0  # how long a file that does not count any more stays, for those who have begun to read it
SMALL_BYTES: Final = 64 * 2**20  # files below this are put together
LARGE_BYTES: Final = 256 * 2**20  # and not beyond that
VERSIONS_KEPT: Final = 10
ROWS_PER_GROUP: Final = 100_000
_ORDER: Final = ("node", "id", "offset")  # so that who looks for one entity finds it in few row groups
_METADATA: Final = "_spark_metadata"
_VERSION: Final = re.compile(r"(\d{8})\.json")
_BATCH: Final = re.compile(r"(\d+)(?:\.compact)?")
_PART: Final = re.compile(r"date=([^/]+)/type=([^/]*)/[^/]+")


class File(Struct, frozen=True, order=True):
    """A file that counts, by its path within the table; `date` and `type` are what it has records of."""

    path: str
    date: str
    type: str
    bytes: int

    @property
    def is_incoming(self) -> bool:
        return self.path.startswith(INCOMING)

    @property
    def place(self) -> str:
        """date=…/type=…"""
        return "/".join(self.path.split("/")[1:-1])


class _Removed(Struct, frozen=True):
    path: str
    since: float  # seconds since 1970


class Version(Struct, frozen=True):
    number: int = 0
    files: tuple[str, ...] = ()  # of data
    covered: tuple[str, ...] = ()  # of incoming: they are in `files`, or were let go
    removed: tuple[_Removed, ...] = ()  # what may be deleted when the grace is over


class Changed(Struct, frozen=True):
    """What a compaction or an expiry has done."""

    files_before: int
    files_after: int
    deleted: int  # files that are gone from the disk


class Table:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    # --- what counts ------------------------------------------------------------------------------------------------

    def visible(self) -> list[File]:
        """The files that count now."""
        version = self.version()
        covered = set(version.covered)
        found = [self._file(path) for path in (*version.files, *(one for one in self._committed() if one not in covered))]
        return sorted(one for one in found if one is not None)

    def _file(self, path: str) -> File | None:
        part = _PART.search(path)
        try:
            size = (self.folder / path).stat().st_size
        except FileNotFoundError:  # covered long ago, and deleted
            return None
        return None if part is None else File(path, unquote(part[1]), unquote(part[2]), size)

    def version(self) -> Version:
        """The newest; the empty one if nobody has changed the table yet."""
        for number in sorted(self._numbers(), reverse=True):
            with suppress(FileNotFoundError):  # somebody published many newer ones meanwhile
                return msgspec.json.decode((self.folder / VERSIONS / f"{number:08}.json").read_bytes(), type=Version)
        return Version()

    def _numbers(self) -> list[int]:
        folder = self.folder / VERSIONS
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return [int(found[1]) for found in map(_VERSION.fullmatch, names) if found]

    def _committed(self) -> list[str]:
        """What Spark's log of the incoming folder names, by path within the table."""
        folder = self.folder / INCOMING / _METADATA
        for _ in range(5):
            try:
                return self._logged(folder)
            except FileNotFoundError:  # it was compacted while we looked
                continue
        raise InvalidInput(f"the log of {folder} cannot be read: files in it come and go; is the disk all right?")

    def _logged(self, folder: Path) -> list[str]:
        if not folder.is_dir():
            return []
        batches: dict[int, str] = {}
        for path in folder.iterdir():
            if found := _BATCH.fullmatch(path.name):
                batches[int(found[1])] = path.name
        whole = max((number for number, name in batches.items() if name.endswith(".compact")), default=-1)
        committed: dict[str, None] = {}
        for number in sorted(number for number in batches if number >= whole):
            for line in (folder / batches[number]).read_text(encoding="utf-8").splitlines()[1:]:
                uri = unquote(urlsplit(msgspec.json.decode(line)["path"]).path, errors="strict")
                committed[f"{INCOMING}/{uri.rpartition(f'/{INCOMING}/')[2]}"] = None
        return list(committed)

    # --- changing it ------------------------------------------------------------------------------------------------

    def compact(self, *, small_bytes: int = SMALL_BYTES, grace_s: float = GRACE_S) -> Changed:
        """Put small files together, and delete what has not counted for longer than the grace."""
        before, visible = self.version(), self.visible()
        gone: list[File] = []
        made: list[str] = []
        for group in _groups(visible, small_bytes):
            made += self._joined(group)
            gone += group
        after = self._without(before, gone, made)
        deleted = self._published(before, after, grace_s)
        return Changed(len(visible), len(visible) - len(gone) + len(made), deleted)

    def expire(self, before_date: str, *, grace_s: float = GRACE_S) -> Changed:
        """Let go of what was recorded before a day (2026-03-01)."""
        version, visible = self.version(), self.visible()
        gone = [file for file in visible if file.date < before_date]
        deleted = self._published(version, self._without(version, gone, []), grace_s)
        return Changed(len(visible), len(visible) - len(gone), deleted)

    def _joined(self, group: list[File]) -> Iterator[str]:
        """The records of some files of one place in new files: one for each schema that there is."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        by_schema: dict[pa.Schema, list[pa.Table]] = {}
        for file in group:
            table = pq.ParquetFile(self.folder / file.path, coerce_int96_timestamp_unit="us").read()
            by_schema.setdefault(table.schema.remove_metadata(), []).append(table.replace_schema_metadata(None))
        for tables in by_schema.values():
            whole = pa.concat_tables(tables)
            if order := [(name, "ascending") for name in _ORDER if name in whole.schema.names]:
                whole = whole.sort_by(order)
            path = f"{DATA}/{group[0].place}/{uuid.uuid4()}.parquet"
            _put(self.folder / path, whole)
            yield path

    def _without(self, version: Version, gone: Iterable[File], made: list[str]) -> Version:
        now = time.time()
        gone_paths = {file.path for file in gone}
        still = set(version.covered) | {path for path in gone_paths if path.startswith(INCOMING)}
        return Version(
            version.number + 1,
            tuple(sorted(({*version.files} - gone_paths) | {*made})),
            tuple(sorted(still)),
            (*version.removed, *(_Removed(path, now) for path in sorted(gone_paths))),
        )

    def _published(self, before: Version, version: Version, grace_s: float) -> int:
        """Make it hold, and delete what is long gone; gives how many files that were. Raises InvalidInput if one was quicker.

        What a version before has let go of is deleted first, for what exists and is not covered counts. What this one lets go
        of counts until it holds, and so stays until then, however short the grace.
        """
        due = time.time() - grace_s
        gone = {one.path for one in before.removed if one.since <= due}
        final = msgspec.structs.replace(
            version,
            covered=tuple(path for path in version.covered if path not in gone),
            removed=tuple(one for one in version.removed if one.path not in gone),
        )
        deleted = _deleted(self.folder / path for path in gone)
        folder = self.folder / VERSIONS
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{uuid.uuid4()}"
        _write(partial, msgspec.json.encode(final))
        try:
            os.link(partial, folder / f"{final.number:08}.json")
        except FileExistsError:
            raise InvalidInput(
                f"somebody else has changed {self.folder} at the same time; nothing was changed, try again"
            ) from None
        finally:
            partial.unlink()
        _sync(folder)
        for number in self._numbers():
            if number <= final.number - VERSIONS_KEPT:
                (folder / f"{number:08}.json").unlink(missing_ok=True)
        deleted += _deleted(self.folder / one.path for one in final.removed if one.since <= due)
        return deleted + self._orphans(final, due)

    def _orphans(self, version: Version, due: float) -> int:
        """Delete what somebody who was killed has left: files of data, and unfinished ones, that no version names."""
        named = {*version.files, *(one.path for one in version.removed)}
        found = []
        for path in (*self.folder.glob(f"{DATA}/*/*/*"), *self.folder.glob(f"{VERSIONS}/.*")):
            with suppress(FileNotFoundError):
                if str(path.relative_to(self.folder)) not in named and path.stat().st_mtime < due:
                    found.append(path)
        return _deleted(found)

    # --- looking at it ----------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """How many files, small ones, bytes and records there are, of which days and types."""
        import pyarrow.parquet as pq

        visible = self.visible()
        return {
            "table": self.name,
            "files": len(visible),
            "small": sum(file.bytes < SMALL_BYTES for file in visible),
            "bytes": sum(file.bytes for file in visible),
            "records": sum(pq.read_metadata(self.folder / file.path).num_rows for file in visible),
            "from": min((file.date for file in visible), default=None),
            "until": max((file.date for file in visible), default=None),
            "types": sorted({file.type for file in visible}),
            "version": self.version().number,
        }


def tables(lake: Path) -> list[Table]:
    """The tables of a lake. Raises InvalidInput if there is none."""
    if not lake.is_dir():
        raise InvalidInput(f"there is no lake at {lake}")
    found = [folder for folder in sorted(lake.iterdir()) if (folder / INCOMING).is_dir() or (folder / VERSIONS).is_dir()]
    return [Table(folder) for folder in found]


def _groups(visible: list[File], small_bytes: int) -> Iterator[list[File]]:
    """Small files of one place that are to become one, as long as that does not become too large; nothing to gain, no group."""
    places: dict[str, list[File]] = {}
    for file in visible:
        if file.bytes < small_bytes:
            places.setdefault(file.place, []).append(file)
    for files in places.values():
        group: list[File] = []
        size = 0
        for file in files:
            if group and size + file.bytes > LARGE_BYTES:
                if len(group) > 1:
                    yield group
                group, size = [], 0
            group.append(file)
            size += file.bytes
        if len(group) > 1:
            yield group


def _put(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}")
    pq.write_table(table, partial, compression="zstd", row_group_size=ROWS_PER_GROUP)
    _sync(partial)
    partial.replace(path)
    _sync(path.parent)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _deleted(paths: Iterable[Path]) -> int:
    number = 0
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
            number += 1
    return number
