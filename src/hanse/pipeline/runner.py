"""Runs a pipeline: one Spark session, several streams with checkpoints in one folder, and word of how they do.

    run(load("air.toml"), file="air.toml", master="local[*]")       # until it is stopped: SIGTERM, SIGINT, `hanse pipeline stop`
    run(pipeline, file=..., is_once=True)                           # all that is there, then the end

Streams, each with a checkpoint of its own in `<folder>/checkpoints` (those of the lake's tables are in the lake):
- `capsule-<name>`: what the source has for it, qualified, through the capsule, into the sink's node. What the node refuses,
  what is below the guarantee, and what is late, said twice or otherwise of no use to the capsule
  (`hanse.pipeline.capsules.screening`), is in `<folder>/set-aside/<name>`, with the reason;
- `collector-<name>`: what is collected, into the sink's node; `rejected-<name>`: lines that are wrong, with the reason, into
  `<folder>/rejected/<name>`, as Parquet;
- `lake-raw`, `lake-qualified`, `lake-derived_<capsule>`: tables of the lake, as far as they are named.

They are begun one after the other, each when the one before has told that it goes; with `is_once` each when the one before has
ended, so that a capsule finds what the one before it has made.

A stream that fails is told of in words and begun again from its checkpoint after a pause, while the others go on: as often as
it takes, or, with `is_once` or `seconds`, `RESTARTS_MAX` times; then the run has failed. Each capsule that has a sink is
advertised at its node, with its guarantee, before anything starts. What Spark itself says is in `<folder>/spark.log`.
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
from hanse.pipeline.capsules import Aside, Capsule, published
from hanse.pipeline.lake_files import CHECKPOINTS as LAKE_CHECKPOINTS
from hanse.pipeline.observations import entities, observations
from hanse.pipeline.plan import DERIVED, QUALIFIED, RAW, Collecting, Pipeline, options_of
from hanse.pipeline.quality import with_quality
from hanse.pipeline.session import LOCAL, session
from hanse.pipeline.shipping import settings
from hanse.pipeline.state import DONE, FAILED, RUNNING, STOPPED, WAITING, Lock, QueryState, State, now, progressed, write
from hanse.pipeline.words import words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from hanse.pipeline.collectors import Collected

LOOK_S: Final = 0.5  # between two looks at the streams
BEGIN_S: Final = 60.0  # that a stream which begins is waited for before the next one
RESTARTS_MAX: Final = 1  # where there is an end
RESTART_S: Final = 2.0  # before a stream that failed is begun again; twice as long each time
RESTART_S_MAX: Final = 300.0
SET_ASIDE: Final = "set-aside"
CHECKPOINTS: Final = "checkpoints"
SPARK_LOG: Final = "spark.log"


def run(
    pipeline: Pipeline,
    *,
    file: str = "",
    master: str = "",
    is_once: bool = False,
    seconds: float | None = None,
    told: Callable[[State], None] = lambda _: None,
    spark: SparkSession | None = None,
) -> State:
    """Run until stopped, or done. `told` is called whenever there is something new to say; `spark` is a session of the
    caller's, which is not stopped.
    """
    folder = Path(pipeline.folder)
    chosen = master or str(pipeline.spark.get("master", LOCAL))
    state = State(name=pipeline.name, file=file, master=chosen, pid=os.getpid(), started=now())
    with Lock(folder), _stoppable() as stop:
        write(folder, state)
        try:
            with _session(pipeline, chosen, folder, spark) as used:
                _Run(pipeline, used, state, told, is_once=is_once).go(stop, seconds)
        except Exception as error:
            state.status, state.error = FAILED, str(error) if isinstance(error, InvalidInput) else words(error)
            write(folder, state)
            raise InvalidInput(state.error) from error
        write(folder, state)
    told(state)
    return state


@contextmanager
def _session(pipeline: Pipeline, master: str, folder: Path, given: SparkSession | None) -> Iterator[SparkSession]:
    if given is not None:
        yield given
        return
    conf = {name: value for name, value in pipeline.spark.items() if name != "master"}
    conf |= settings(master, folder, conf)
    with _standard_error(folder / SPARK_LOG), _own_interrupt():
        spark = session(f"hanse {pipeline.name}", master, **conf)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _standard_error(file: Path) -> Iterator[None]:
    """What is started meanwhile, Java and through it the Python workers, complains into a file."""
    before = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Spark answers Ctrl-C itself from its start on, and breaks off whatever is just being said; `_stoppable` is to do it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


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
        self.state = QueryState(name=name, status=WAITING)
        self.begin = begin
        self.query: StreamingQuery | None = None
        self.seen = ""
        self.begun_at = 0.0
        self.again_at = 0.0

    @property
    def is_settled(self) -> bool:
        """Whether the next one may begin."""
        return bool(self.seen) or self.query is None or time.monotonic() > self.begun_at + BEGIN_S


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
        self._restarts_max: int | None = None  # as often as it takes

    def go(self, stop: threading.Event, seconds: float | None) -> None:
        register(self._spark)
        if self._pipeline.sink is not None:
            self._state.warnings = advertise(self._pipeline.sink, self._pipeline.capsules)
        self._streams = list(self._planned())
        self._state.queries = [stream.state for stream in self._streams]
        self._restarts_max = RESTARTS_MAX if self._is_once or seconds is not None else None
        try:
            until = None if seconds is None else time.monotonic() + seconds
            while self._look():
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
        for collecting in self._pipeline.collectors:
            yield _Stream(f"collector-{collecting.name}", lambda one=collecting: self._collected(one))  # type: ignore[misc]
            yield _Stream(f"rejected-{collecting.name}", lambda one=collecting: self._rejected(one))  # type: ignore[misc]
        lake = self._pipeline.lake
        tables = lake.tables if lake is not None else ()
        if RAW in tables:
            past = {"past": "true"} if lake is not None and lake.past else {}
            yield _Stream("lake-raw", lambda: self._into_lake(self._records(past), RAW))
        if QUALIFIED in tables:
            yield _Stream("lake-qualified", lambda: self._into_lake(self._qualified(), QUALIFIED))
        for capsule in self._pipeline.capsules:
            if self._pipeline.sink is not None:
                yield _Stream(f"capsule-{capsule.name}", lambda one=capsule: self._into_node(one))  # type: ignore[misc]
            if DERIVED in tables:
                table = f"{DERIVED}_{capsule.name.replace('-', '_')}"
                yield _Stream(
                    f"lake-{table}",
                    lambda one=capsule, table=table: self._derived(one, table),  # type: ignore[misc]
                )

    def _records(self, filters: dict[str, str]) -> DataFrame:
        options = filters | options_of(self._pipeline.source or {})
        return self._spark.readStream.format("hanse").options(**options).load()

    def _qualified(self) -> DataFrame:
        """As the lake takes it: by when it was accepted."""
        frame = with_quality(self._observed({}))
        return frame.withColumnRenamed("accepted_at", "at")

    def _observed(self, filters: dict[str, str]) -> DataFrame:
        return observations(self._records(filters), context=str((self._pipeline.source or {}).get("context", "")))

    def _made(self, capsule: Capsule, aside: str, checkpoint: Path) -> DataFrame:
        kept = Aside(str(self._folder / SET_ASIDE / aside), str(checkpoint))
        return published(capsule, with_quality(self._observed(capsule.input.source_options())), kept)

    def _into_node(self, capsule: Capsule) -> StreamingQuery:
        name = f"capsule-{capsule.name}"
        return self._sent(self._made(capsule, capsule.name, self._checkpoint(name)), name, capsule.name)

    def _derived(self, capsule: Capsule, table: str) -> StreamingQuery:
        assert self._pipeline.lake is not None
        checkpoint = Path(self._pipeline.lake.folder, LAKE_CHECKPOINTS, table)
        return self._into_lake(self._made(capsule, f"lake-{table}", checkpoint), table)

    def _checkpoint(self, name: str) -> Path:
        return self._folder / CHECKPOINTS / name

    def _sent(self, frame: DataFrame, name: str, aside: str) -> StreamingQuery:
        options = {"deadLetters": str(self._folder / SET_ASIDE / aside)} | options_of(self._pipeline.sink or {})
        return self._started(frame.writeStream.format("hanse").options(**options), name)

    def _started(self, writer: DataStreamWriter, name: str) -> StreamingQuery:
        named = writer.option("checkpointLocation", str(self._checkpoint(name))).queryName(name)
        return named.outputMode("append").trigger(**self._trigger).start()

    def _collecting(self, collecting: Collecting) -> Collected:
        from hanse.pipeline.collectors import collect
        from hanse.pipeline.mapping import load_mapping

        return collect(self._spark, load_mapping(Path(collecting.mapping)), collecting.path, stream=True)

    def _collected(self, collecting: Collecting) -> StreamingQuery:
        name = f"collector-{collecting.name}"
        return self._sent(entities(with_quality(self._collecting(collecting).observations)), name, name)

    def _rejected(self, collecting: Collecting) -> StreamingQuery:
        folder = str(self._folder / "rejected" / collecting.name)
        writer = self._collecting(collecting).rejected.writeStream.format("parquet").option("path", folder)
        return self._started(writer, f"rejected-{collecting.name}")

    def _into_lake(self, frame: DataFrame, table: str) -> StreamingQuery:
        from hanse.pipeline.lake import Lake

        assert self._pipeline.lake is not None
        lake = Lake(self._pipeline.lake.folder, self._pipeline.lake.format)
        return lake.write(frame, table, trigger=self._trigger, query=f"lake-{table}")

    # --- how it goes ------------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Hear what the streams tell, and begin what is to begin; whether anything goes on."""
        is_next = True  # all before have ended, or tell that they go
        for stream in self._streams:
            if stream.state.status == WAITING and is_next:
                stream.query = stream.begin()  # what is wrong with the plan itself shows here, and ends the run
                stream.state.status, stream.begun_at = RUNNING, time.monotonic()
            elif stream.state.status == FAILED and self._is_tried_again(stream) and time.monotonic() >= stream.again_at:
                self._begin_again(stream)
            if stream.query is not None:
                self._hear(stream, stream.query)
                if not stream.query.isActive:
                    self._hear(stream, stream.query)
                    self._ended(stream, stream.query)
            has_ended = stream.state.status == DONE or (stream.state.status == FAILED and not self._is_tried_again(stream))
            is_next = is_next and (has_ended if self._is_once else stream.state.status != WAITING and stream.is_settled)
        return any(
            one.state.status in (RUNNING, WAITING) or (one.state.status == FAILED and self._is_tried_again(one))
            for one in self._streams
        )

    def _is_tried_again(self, stream: _Stream) -> bool:
        return self._restarts_max is None or stream.state.restarts < self._restarts_max

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
            stream.state.status, stream.begun_at = RUNNING, time.monotonic()

    def _end(self) -> None:
        for stream in self._streams:
            if stream.query is not None:
                stream.query.stop()
                self._hear(stream, stream.query)
                stream.state.status = STOPPED
                stream.query = None
