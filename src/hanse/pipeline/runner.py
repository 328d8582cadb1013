"""Runs a pipeline: one Spark session, several streams with checkpoints in one folder, and word of how they do.

    run(load("air.toml"), file="air.toml", master="local[*]")       # until it is stopped: SIGTERM, SIGINT, `hanse pipeline stop`
    run(pipeline, file=..., is_once=True)                           # all that is there, then the end

Streams, each with a checkpoint of its own in `<folder>/checkpoints` (those of the lake's tables are in the lake):
- `capsule-<name>`: what the source has for it, qualified, through the capsule, into the sink's node. What the node refuses,
  and what is below the guarantee, is in `<folder>/set-aside/<name>`;
- `lake-raw`, `lake-qualified`, `lake-derived_<capsule>`: tables of the lake, as far as they are named.

A stream that fails is told of in words and begun again from its checkpoint after a pause, while the others go on; with
`is_once` or `seconds` it stays as it is, and the run has failed. Each capsule that has a sink is advertised at its node, with
its guarantee, before it starts.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.model import InvalidInput
from hanse.pipeline import register
from hanse.pipeline.advertising import advertise
from hanse.pipeline.capsules import Capsule, published
from hanse.pipeline.observations import observations
from hanse.pipeline.plan import DERIVED, QUALIFIED, RAW, Pipeline, options_of
from hanse.pipeline.quality import with_quality
from hanse.pipeline.session import LOCAL, session
from hanse.pipeline.shipping import ship
from hanse.pipeline.state import DONE, FAILED, RUNNING, STOPPED, Lock, QueryState, State, now, progressed, write
from hanse.pipeline.words import words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S: Final = 0.5  # between two looks at the streams
RESTART_S: Final = 5.0  # before a stream that failed is begun again; twice as long each time
RESTART_S_MAX: Final = 300.0
SET_ASIDE: Final = "set-aside"
CHECKPOINTS: Final = "checkpoints"


def run(
    pipeline: Pipeline,
    *,
    file: str = "",
    master: str = "",
    is_once: bool = False,
    seconds: float | None = None,
    told: Callable[[State], None] = lambda _: None,
) -> State:
    """Run until stopped, or done. `told` is called whenever there is something new to say."""
    folder = Path(pipeline.folder)
    chosen = master or str(pipeline.spark.get("master", LOCAL))
    state = State(name=pipeline.name, file=file, master=chosen, pid=os.getpid(), started=now())
    with Lock(folder), _stoppable() as stop:
        write(folder, state)
        try:
            conf = {name: value for name, value in pipeline.spark.items() if name != "master"}
            spark = session(f"hanse {pipeline.name}", chosen, **conf)
            try:
                ship(spark, chosen, folder)
                _Run(pipeline, spark, state, told, is_once=is_once).go(stop, seconds)
            finally:
                spark.stop()
        except Exception as error:
            state.status, state.error = FAILED, str(error) if isinstance(error, InvalidInput) else words(error)
            write(folder, state)
            raise InvalidInput(state.error) from error
        write(folder, state)
    told(state)
    return state


@contextmanager
def _stoppable() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, in the main thread."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Stream:
    """A query, how to begin it, and how far its progress has been looked at."""

    def __init__(self, name: str, begin: Callable[[], StreamingQuery]) -> None:
        self.state = QueryState(name=name)
        self.begin = begin
        self.query: StreamingQuery | None = None
        self.seen = ""
        self.again_at = 0.0


class _Run:
    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, state: State, told: Callable[[State], None], *, is_once: bool
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._state = state
        self._told = told
        self._is_once = is_once
        self._folder = Path(pipeline.folder)
        self._trigger: dict[str, Any] = {"availableNow": True} if is_once else {"processingTime": f"{pipeline.trigger_s} seconds"}
        self._streams: list[_Stream] = []

    def go(self, stop: threading.Event, seconds: float | None) -> None:
        register(self._spark)
        if self._pipeline.sink is not None:
            self._state.warnings = advertise(self._pipeline.sink, self._pipeline.capsules)
        self._streams = list(self._planned())
        self._state.queries = [stream.state for stream in self._streams]
        is_patient = not self._is_once and seconds is None
        try:
            for stream in self._streams:
                stream.query = stream.begin()  # what is wrong with the plan itself shows here, and ends it
            until = None if seconds is None else time.monotonic() + seconds
            while self._look(is_patient=is_patient):
                write(self._folder, self._state)
                self._told(self._state)
                if stop.wait(LOOK_S) or (until is not None and time.monotonic() >= until):
                    break
        finally:
            is_stopped = stop.is_set()
            self._end()
        failed = [one for one in self._state.queries if one.status == FAILED]
        self._state.status = FAILED if failed else STOPPED if is_stopped else DONE
        if failed:
            self._state.error = f"{failed[0].name}: {failed[0].error}"

    # --- what there is to run ---------------------------------------------------------------------------------------

    def _planned(self) -> Iterator[_Stream]:
        lake = self._pipeline.lake
        tables = lake.tables if lake is not None else ()
        if RAW in tables:
            yield _Stream("lake-raw", lambda: self._into_lake(self._records({}), RAW))
        if QUALIFIED in tables:
            yield _Stream("lake-qualified", lambda: self._into_lake(self._qualified(), QUALIFIED))
        for capsule in self._pipeline.capsules:
            if self._pipeline.sink is not None:
                yield _Stream(f"capsule-{capsule.name}", lambda one=capsule: self._into_node(one))  # type: ignore[misc]
            if DERIVED in tables:
                table = f"{DERIVED}_{capsule.name.replace('-', '_')}"
                yield _Stream(
                    f"lake-{table}",
                    lambda one=capsule, table=table: self._into_lake(self._made(one), table),  # type: ignore[misc]
                )

    def _records(self, filters: dict[str, str]) -> DataFrame:
        options = filters | options_of(self._pipeline.source)
        return self._spark.readStream.format("hanse").options(**options).load()

    def _qualified(self) -> DataFrame:
        """As the lake takes it: by when it was accepted."""
        frame = with_quality(self._observed({}))
        return frame.withColumnRenamed("accepted_at", "at")

    def _observed(self, filters: dict[str, str]) -> DataFrame:
        return observations(self._records(filters), context=str(self._pipeline.source.get("context", "")))

    def _made(self, capsule: Capsule) -> DataFrame:
        return published(capsule, with_quality(self._observed(capsule.input.source_options())))

    def _into_node(self, capsule: Capsule) -> StreamingQuery:
        assert self._pipeline.sink is not None
        name = f"capsule-{capsule.name}"
        aside = {"deadLetters": str(self._folder / SET_ASIDE / capsule.name)}
        writer = self._made(capsule).writeStream.format("hanse").options(**aside | options_of(self._pipeline.sink))
        writer = writer.option("checkpointLocation", str(self._folder / CHECKPOINTS / name)).queryName(name)
        return writer.outputMode("append").trigger(**self._trigger).start()

    def _into_lake(self, frame: DataFrame, table: str) -> StreamingQuery:
        from hanse.pipeline.lake import Lake

        assert self._pipeline.lake is not None
        return Lake(self._pipeline.lake.folder).write(frame, table, trigger=self._trigger, query=f"lake-{table}")

    # --- how it goes ------------------------------------------------------------------------------------------------

    def _look(self, *, is_patient: bool) -> bool:
        """Hear what the streams tell; whether one of them goes on."""
        for stream in self._streams:
            if stream.query is None:
                if is_patient and time.monotonic() >= stream.again_at:
                    self._begin_again(stream)
                continue
            self._hear(stream, stream.query)
            if not stream.query.isActive:
                self._hear(stream, stream.query)
                self._ended(stream, stream.query)
        return any(stream.query is not None or (is_patient and stream.state.status == FAILED) for stream in self._streams)

    def _hear(self, stream: _Stream, query: StreamingQuery) -> None:
        """Each report once: they are in order, and their times are unique."""
        for progress in query.recentProgress:
            report = msgspec.json.decode(progress.json) if hasattr(progress, "json") else dict(progress)
            key = f"{report['timestamp']} {report['batchId']:020}"
            if key > stream.seen:
                stream.seen = key
                progressed(stream.state, report)

    def _ended(self, stream: _Stream, query: StreamingQuery) -> None:
        error = query.exception()
        stream.query = None
        if error is None:
            stream.state.status = DONE
            return
        stream.state.status, stream.state.error = FAILED, words(error)
        pause_s = min(RESTART_S * 2**stream.state.restarts, RESTART_S_MAX)
        stream.again_at = time.monotonic() + pause_s

    def _begin_again(self, stream: _Stream) -> None:
        stream.state.restarts += 1
        try:
            stream.query = stream.begin()
        except Exception as error:  # noqa: BLE001
            stream.state.error = words(error)
            stream.again_at = time.monotonic() + min(RESTART_S * 2**stream.state.restarts, RESTART_S_MAX)
        else:
            stream.state.status = RUNNING

    def _end(self) -> None:
        for stream in self._streams:
            if stream.query is not None:
                stream.query.stop()
                self._hear(stream, stream.query)
                stream.state.status = STOPPED
                stream.query = None
