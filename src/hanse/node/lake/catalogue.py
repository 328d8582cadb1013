"""Which files of the lake may have what is asked for, by what their footers say of them. Knows nothing of SQLite.

A footer is read once and remembered: files do not change. The list of the files that count is looked up again when a question
comes that is not just behind another one.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.node.lake.records import Record
from hanse.pipeline.lake_files import Table, tables
from hanse.pipeline.past import PAST

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hanse.node.lake.question import Question, Span

TABLE: Final = "raw"
LOOK_AGAIN_S: Final = 5.0
FEW_IDS: Final = 1_000  # of so many it is looked up where each could be
RECORDS_AT_ONCE: Final = 10_000  # that are in memory as they are
_NEEDED: Final = ("node", "offset", "at", "kind", "id", *PAST)
_SMALL: Final = ["node", "tenant", "offset", "at", "kind", "id", "pastFrom", "pastUntil"]
_TEXTS: Final = ("typeId", "id", "node")
_TIMES: Final = ("at", "pastFrom", "pastUntil")
_EVER: Final = (-(1 << 62), 1 << 62)
_ROW: Final = "_row"

log = structlog.get_logger("hanse.lake")


class Group(Struct, frozen=True):
    """A row group of a file, and what there may be in it; None where the footer does not say."""

    path: str
    number: int
    records: int
    types: tuple[str, str] | None
    ids: tuple[str, str] | None
    nodes: tuple[str, str] | None
    times: dict[str, tuple[int, int]]  # of each column that has some


class Catalogue:
    def __init__(self, folder: Path, node: str) -> None:
        self.folder = folder
        self.node = node
        self._groups: dict[str, tuple[Group, ...]] = {}  # by file
        self._known: list[Group] = []
        self._looked_at = float("-inf")
        self.others: set[str] = set()  # names that the lake has of other nodes
        self.ignored = 0  # files without what the past is made of

    def look(self, *, again: bool = False) -> None:
        """See which files there are. Raises InvalidInput and OSError."""
        if not again and time.monotonic() < self._looked_at + LOOK_AGAIN_S:
            return
        groups: dict[str, tuple[Group, ...]] = {}
        if (table := self._table()) is not None:
            for file in table.visible():
                known = self._groups.get(file.path)
                groups[file.path] = self._read(table.folder / file.path) if known is None else known
        self._groups = groups
        every = [group for some in groups.values() for group in some]
        self._known = [group for group in every if _spans(group.nodes, self.node)]
        self.others = {name for group in every for name in group.nodes or ()} - {self.node}
        self.ignored = sum(not some for some in groups.values())
        self._looked_at = time.monotonic()

    @property
    def groups(self) -> list[Group]:
        return self._known

    def _table(self) -> Table | None:
        """None: there is nothing yet."""
        if not self.folder.exists():
            return None
        if not self.folder.is_dir():
            raise InvalidInput(f"{self.folder} is no folder; give that of a lake, as `hanse pipeline run` writes one")
        return next((table for table in tables(self.folder) if table.name == TABLE), None)

    def _read(self, path: Path) -> tuple[Group, ...]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path) as file:
                names = set(file.schema_arrow.names)
                return tuple(_groups(path, file.metadata)) if names.issuperset(_NEEDED) else ()
        except FileNotFoundError:  # let go since it was listed
            return ()
        except (pa.ArrowInvalid, OSError) as error:
            log.warning("a file of the lake cannot be read, and is left out", file=str(path), error=str(error))
            return ()

    # --- looking for something ----------------------------------------------------------------------------------------

    def chosen(self, question: Question, types: Collection[str] | None, ids: Collection[str], before_us: int) -> list[Group]:
        """Where there may be something of these entities, whose types are among those given (None: who knows), that was
        accepted before a moment.
        """
        few = sorted(ids) if len(ids) <= FEW_IDS else None
        span = question.span
        return [
            group
            for group in self._known
            if group.times["at"][0] < before_us
            and (span.from_us is None or group.times[span.high][1] >= span.from_us)
            and (span.until_us is None or group.times[span.low][0] < span.until_us)
            and (types is None or any(_spans(group.types, name) for name in types))
            and (few is None or _has_any(few, group.ids))
        ]

    def newest(self, tenant: str) -> Record | None:
        """The record with the highest offset that there is of the node."""
        found: Record | None = None
        for group in sorted(self._known, key=lambda one: one.times["at"][1], reverse=True):
            if found is not None and group.times["at"][1] < found.at_us:
                break
            with _opened(group) as file:
                for offset, at_us, kind, id_ in _listed(_of_node(file, group, self.node, tenant)):
                    if found is None or offset > found.offset:
                        found = Record(offset, at_us, kind, id_, "[]")
        return found

    def records(self, groups: Iterable[Group], tenant: str, question: Question, ids: Iterable[str]) -> Iterator[list[Record]]:
        """The records of these entities that may have something to a question, some at a time."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pa.array(sorted(ids), pa.string())
        for group in groups:
            with _opened(group) as file:
                small = _of_node(file, group, self.node, tenant)
                small = small.filter(pc.is_in(small["id"], value_set=wanted))
                small = _in_time(small, question.span)
                if len(small):  # only now what is large
                    yield from _with_past(file, group, small)


@contextmanager
def _opened(group: Group) -> Iterator[pq.ParquetFile]:
    """Raises OSError, whatever is wrong with the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(group.path) as file:
            yield file
    except pa.ArrowException as error:
        raise OSError(f"{group.path}: {error}") from error


def _with_past(file: pq.ParquetFile, group: Group, small: pa.Table) -> Iterator[list[Record]]:
    """The records that these are the small part of."""
    numbers = small[_ROW].to_pylist()
    first = done = 0
    for batch in file.iter_batches(RECORDS_AT_ONCE, row_groups=[group.number], columns=["past"], use_threads=False):
        upto = bisect_left(numbers, first + len(batch))
        if upto > done:
            texts = batch.column(0).take([number - first for number in numbers[done:upto]]).to_pylist()
            listed = zip(_listed(small.slice(done, upto - done)), texts, strict=True)
            yield [Record(*of, past=text) for of, text in listed if text is not None]
        first, done = first + len(batch), upto
        if done == len(numbers):
            return


def _of_node(file: pq.ParquetFile, group: Group, node: str, tenant: str) -> pa.Table:
    """What is small of the records of a node, with their numbers in the row group."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    table = file.read_row_group(group.number, columns=_SMALL, use_threads=False)
    for name in _TIMES:
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    table = table.append_column(_ROW, pa.array(np.arange(len(table))))
    return table.filter(pc.and_(pc.equal(table["node"], node), pc.equal(table["tenant"], tenant)))


def _in_time(table: pa.Table, span: Span) -> pa.Table:
    import pyarrow.compute as pc

    if span.from_us is not None:
        table = table.filter(pc.greater_equal(table[span.high], span.from_us))
    return table if span.until_us is None else table.filter(pc.less(table[span.low], span.until_us))


def _listed(table: pa.Table) -> Iterator[tuple[int, int, str, str]]:
    return zip(*(table[name].to_pylist() for name in ("offset", "at", "kind", "id")), strict=True)


def _groups(path: Path, footer: pq.FileMetaData) -> Iterator[Group]:
    columns = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    for number in range(footer.num_row_groups):
        spans = {name: _span(footer.row_group(number).column(columns[name]).statistics) for name in (*_TEXTS, *_TIMES)}
        records = footer.row_group(number).num_rows
        times = {name: spans[name] or _EVER for name in _TIMES}
        yield Group(str(path), number, records, spans["typeId"], spans["id"], spans["node"], times)


def _span(statistics: Any) -> tuple[Any, Any] | None:
    """The least and the greatest value, times in microseconds; None: nobody knows."""
    if statistics is None or not statistics.has_min_max:
        return None
    if statistics.physical_type == "INT64":
        return statistics.min_raw, statistics.max_raw
    return statistics.min, statistics.max


def _has_any(ids: Sequence[str], between: tuple[str, str] | None) -> bool:
    """Of some that are in order."""
    if between is None:
        return True
    first = bisect_left(ids, between[0])
    return first < len(ids) and ids[first] <= between[1]


def _spans(between: tuple[str, str] | None, text: str) -> bool:
    return between is None or between[0] <= text <= between[1]
