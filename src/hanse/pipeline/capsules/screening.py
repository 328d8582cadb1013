"""What comes to a capsule and does not count: counted by its kind, and kept aside with the reason, each once.

| kind | |
| --- | --- |
| unplaced | it has none of the places that the capsule goes by |
| ahead | it says that it was observed long after it was accepted: it would make all others late |
| late | it was observed before the watermark, so its window may be closed; Spark would drop it without a word |
| wrong type | the capsule needs a number of this attribute, and it is something else |
| duplicate | the same attribute of the same entity was observed at the same time; the one that came first counts |
| failed | the capsule's own code has failed on these readings |

Letters are files like the sink's dead letters (`hanse.pipeline.sink.dead_letters` reads them): one for each batch and
partition, written again if Spark does the batch again.

**Late** is decided by the watermark that Spark writes into the query's checkpoint before it begins a batch, so workers must see
the folder of checkpoints. It is at least as strict as Spark itself, so that nothing is left for Spark to drop.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from hanse.pipeline.observations import COLUMNS, SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

FUTURE_S_MAX: Final = 300  # ahead of the node's clock: more would move the watermark on, and all others would be late
UNPLACED: Final = "unplaced"
AHEAD: Final = "ahead"
LATE: Final = "late"
WRONG_TYPE: Final = "wrong type"
DUPLICATE: Final = "duplicate"
FAILED: Final = "failed"
SAME: Final = ("entity", "attribute", "observed_at")  # what makes two observations the same one
AGAIN: Final = "again"  # the column with those that say the same as one that counts
_TOLD: Final = ("accepted_at", "key", "value", "text")  # of those
_INPUT: Final = "input"
_WINDOWS: Final = "windows"
_WORDS: Final = {
    UNPLACED: "it has no such place as the capsule goes by",
    AHEAD: f"it says that it was observed more than {FUTURE_S_MAX} s after it was accepted",
    WRONG_TYPE: "the capsule needs a number, and its value is none",
    DUPLICATE: "the same attribute of the same entity was observed at the same time already",
}
_encode = msgspec.json.Encoder().encode


class Aside(Struct, frozen=True):
    """Where a query keeps what does not count, and its checkpoint."""

    folder: str
    checkpoint: str

    def keep(self, stage: str, letters: list[dict[str, Any]]) -> None:
        """In a worker: all of one partition of a batch."""
        from hanse.pipeline.sink import keep_letters, part_of_batch

        keep_letters(str(Path(self.folder, stage)), part_of_batch(), letters)

    def watermark_us(self) -> int | None:
        """In a worker: what is not observed after this is late in this batch; None if nothing is."""
        from hanse.pipeline.sink import part_of_batch

        batch = part_of_batch().split("/")[1]
        lines = Path(self.checkpoint, "offsets", batch).read_text(encoding="utf-8").splitlines()
        return int(msgspec.json.decode(lines[1])["batchWatermarkMs"]) * 1_000 or None


def letter(kind: str, reason: str, id_: str | None, said: Any) -> dict[str, Any]:
    return {"kind": kind, "reason": f"{kind}: {reason}", "id": id_, "entity": _encode(said).decode()}


# --- before the capsule ---------------------------------------------------------------------------------------------------


def screened(frame: DataFrame, numbers: tuple[str, ...], aside: Aside | None, *, is_windowed: bool) -> DataFrame:
    """Observations with `place`, and with `kind`: null for those that count; the others are kept aside.

    `numbers`: attributes that must be numbers. Nothing is late in a batch frame, or where there are no windows.
    """
    screen = _Screen(numbers, aside if frame.isStreaming else None, is_windowed=is_windowed)
    return frame.select(*COLUMNS, "place").mapInArrow(screen, f"{SCHEMA}, place string, kind string")


class _Screen:
    """In the workers."""

    def __init__(self, numbers: tuple[str, ...], aside: Aside | None, *, is_windowed: bool) -> None:
        self._numbers = numbers
        self._aside = aside
        self._is_windowed = is_windowed

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        aside = self._aside
        watermark_us = aside.watermark_us() if aside is not None and self._is_windowed else None
        letters: list[dict[str, Any]] = []
        for batch in batches:
            kinds = self._kinds(batch, watermark_us)
            if aside is not None and kinds.null_count < len(kinds):
                letters += _letters(batch, kinds, watermark_us)
            yield batch.append_column("kind", kinds)
        if aside is not None:
            aside.keep(_INPUT, letters)

    def _kinds(self, batch: pa.RecordBatch, watermark_us: int | None) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        observed, accepted = (batch.column(name).cast(pa.int64()) for name in ("observed_at", "accepted_at"))
        nothing = pa.scalar(None, pa.string())
        kinds = nothing
        if self._numbers:
            is_wrong = pc.and_(pc.is_null(batch.column("value")), pc.is_in(batch.column("attribute"), pa.array(self._numbers)))
            kinds = pc.if_else(is_wrong, WRONG_TYPE, nothing)
        if watermark_us is not None:
            kinds = pc.if_else(pc.less_equal(observed, watermark_us), LATE, kinds)
        is_ahead = pc.greater(pc.subtract(observed, accepted), FUTURE_S_MAX * 1_000_000)
        kinds = pc.if_else(pc.fill_null(is_ahead, fill_value=False), AHEAD, kinds)
        found: pa.Array = pc.if_else(pc.is_null(batch.column("place")), UNPLACED, kinds).cast(pa.string())
        return found


def _letters(batch: pa.RecordBatch, kinds: pa.Array, watermark_us: int | None) -> Iterator[dict[str, Any]]:
    import pyarrow.compute as pc

    is_aside = pc.is_valid(kinds)
    rows = batch.filter(is_aside).to_pylist(maps_as_pydicts="lossy")
    for row, kind in zip(rows, kinds.filter(is_aside).to_pylist(), strict=True):
        reason = f"what was observed up to {_text(watermark_us)} has been dealt with" if kind == LATE else _WORDS[kind]
        yield letter(kind, reason, row["entity"], row)


def _text(at_us: int | None) -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us or 0)).isoformat()


# --- duplicates -----------------------------------------------------------------------------------------------------------


def first_of_same(frame: DataFrame) -> DataFrame:
    """Of those that are the same the one that was accepted first; the others are in its column `again`.

    Of a stream with a watermark, each when the watermark has passed it.
    """
    from pyspark.sql import functions as f

    others = [name for name in frame.columns if name not in SAME]
    groups = frame.groupBy(*SAME).agg(f.collect_list(f.struct(*others)).alias("every"))
    ordered = f.when(f.size("every") > 1, f.array_sort("every", _earlier)).otherwise(f.col("every"))  # mostly there is one
    told = f.transform(
        f.slice("ordered", 2, f.greatest(f.lit(1), f.size("ordered") - 1)),
        lambda one: f.struct(*(one[name].alias(name) for name in _TOLD), f.col("observed_at").alias("observed_at")),
    )
    one = f.get("ordered", f.lit(0)).alias("one")
    return groups.withColumn("ordered", ordered).select(*SAME, one, told.alias(AGAIN)).select(*SAME, "one.*", AGAIN)


def _earlier(one: Column, other: Column) -> Column:
    """By when they were accepted, then by their keys, which differ."""
    from pyspark.sql import functions as f

    return (
        f.when(one["accepted_at"] < other["accepted_at"], -1)
        .when(one["accepted_at"] > other["accepted_at"], 1)
        .when(one["key"] < other["key"], -1)
        .when(one["key"] > other["key"], 1)
        .otherwise(0)
    )


def again_in_window() -> Column:
    """An aggregate: all that is in `again`."""
    from pyspark.sql import functions as f

    return f.flatten(f.collect_list(f.when(f.size(AGAIN) > 0, f.col(AGAIN)))).alias(AGAIN)


def again_once(every_s: float) -> Column:
    """Of windows that overlap, in the last one of each observation only; `w` is the window."""
    from pyspark.sql import functions as f

    since = f.col("w.end") - f.expr(f"INTERVAL {every_s * 1e6:.0f} MICROSECONDS")
    return f.filter(AGAIN, lambda one: one["observed_at"] >= since).alias(AGAIN)


# --- after the capsule ----------------------------------------------------------------------------------------------------


class WindowLetters:
    """In a worker: what the windows of a partition leave aside."""

    def __init__(self, aside: Aside | None) -> None:
        self._aside = aside
        self._letters: list[dict[str, Any]] = []

    def add_duplicates(self, row: dict[str, Any]) -> None:
        for one in row.get(AGAIN) or ():
            self._letters.append(letter(DUPLICATE, _WORDS[DUPLICATE], one["key"], one))

    def add_failed(self, row: dict[str, Any], error: Exception) -> None:
        self._letters.append(letter(FAILED, f"{type(error).__name__}: {error}", row.get("place"), row))

    def keep(self) -> None:
        if self._aside is not None:
            self._aside.keep(_WINDOWS, self._letters)
