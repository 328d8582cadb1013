"""The logs of nodes in Spark: `spark.read.format("hanse")` and `spark.readStream.format("hanse")`.

    from hanse.pipeline import register
    register(spark)
    air = (spark.readStream.format("hanse")
           .option("nodes", "fire=http://127.0.0.1:9090,police=http://127.0.0.1:9091")
           .option("types", "AirQualityObserved").option("columns", "no2 double, pm10 double").load())

Options (all but `nodes` can be left out):
- `nodes`: URLs, separated by commas, each perhaps with a name: `fire=http://…`. Offsets are kept by name: a node may move;
- `types`, `attributes`: names, separated by commas: records of these types; those that touch these attributes, and of them only
  these. `scopes`: an NGSI-LD scope query. `area`: GeoJSON. `qualityQ`: a requirement, asked of what has changed at the time of
  the change. `from`, `until`: times;
- `columns`: typed columns, `no2 double, name string`; `model`: a data model (a JSON Schema: a file, its text, or the name of a
  type that the first node has a model of) whose attributes become typed columns; see `hanse.pipeline.schema`;
- `context`: an @context (a file or its text) by which names are meant and shortened; `location`: false leaves places out;
  `past`: true adds what a node needs to answer from the records (`hanse.pipeline.past`);
- `token`: a bearer token (else HANSE_TOKEN of the driver); `tenant`;
- `maxRecordsPerTrigger` (800,000), shared by the nodes as they lag; `recordsPerPartition` (50,000): not to be changed while a
  query is to go on from its checkpoint with a sink that goes by partitions;
- `startingOffsets`: earliest (what the logs still have) or latest; for new queries only;
- `failOnDataLoss`: true. `patience`: seconds that a worker waits for a node that is away (600; 60 for `spark.read`).

Offsets are positions in each node's log, `{"fire": 1200}`: the last one read. A node that is away when a micro-batch is planned
has nothing new; one that goes away while it is read is waited for.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from hanse.model import InvalidInput
from hanse.pipeline.options import READ_PATIENCE_S, STREAM_PATIENCE_S, NodeName, SourceOptions
from hanse.pipeline.schema import Column, Layout, columns_of_model, context_of, ddl, parse_columns
from hanse.pipeline.wire import BUSY, PAUSE_S_MAX, Answer, Wire

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from hanse.pipeline.sink import BatchSink, StreamSink

LOG: Final = "/hanse/v1/log"
PAGE: Final = 25_000  # records in one answer of a node
_ARROW: Final = "application/vnd.apache.arrow.stream"
_SCHEMA: Final = "application/schema+json"


class HanseDataSource(DataSource):
    """What `register` makes known to Spark as the format "hanse"."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "hanse"

    def schema(self) -> str:
        options = SourceOptions.of(self.options)
        return ddl(_columns(options), past=options.past)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return LogReader(SourceOptions.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return LogStreamReader(SourceOptions.of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        from hanse.pipeline.sink import BatchSink

        if overwrite:
            raise InvalidInput('what a node has is not overwritten; write with .mode("append")')
        return BatchSink(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: ARG002, N802
        from hanse.pipeline.sink import StreamSink

        return StreamSink(self.options, schema)


class Range(InputPartition):
    """Records of one node's log: those behind `after`, up to `upto` and including it."""

    def __init__(self, node: NodeName, after: int, upto: int) -> None:
        super().__init__((node.name, after, upto))
        self.node = node
        self.after = after
        self.upto = upto


class _Reading:
    """What batch and stream have in common; it is sent to the workers, so it holds options only."""

    def __init__(self, options: SourceOptions, patience_s: float) -> None:
        self.options = options
        self.columns = _columns(options)
        self.patience_s = patience_s
        context = context_of(options.context)
        flags = {"places": options.location, "past": options.past}
        self.params = dict(options.filters) | {name: "true" for name, is_set in flags.items() if is_set}
        for name in ("type", "attrs"):
            if name in self.params:  # by the user's @context, which the node need not know
                self.params[name] = ",".join(context.expand_term(one.strip()) for one in self.params[name].split(","))

    def wire(self, node: NodeName) -> Wire:
        return Wire(node.url, self.options.token, self.options.tenant)

    def ends(self, node: NodeName) -> tuple[int, int]:
        """The offsets of the first and the last record that a node has."""
        wire = self.wire(node)
        try:
            return _ends(wire.patiently("GET", LOG, {"limit": 0}, patience_s=self.patience_s))
        finally:
            wire.close()

    def ranges(self, node: NodeName, after: int, upto: int) -> list[Range]:
        size = self.options.records_per_partition
        return [Range(node, first, min(first + size, upto)) for first in range(after, upto, size)]

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker: page after page; the next one is on its way while Spark takes the one before."""
        import pyarrow as pa

        assert isinstance(part, Range)
        layout = Layout(self.columns, self.options.context, self.options.tenant if self.options.past else None)
        wire = self.wire(part.node)
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self._page, wire, part, part.after)
            position = part.after
            while position < part.upto:
                answer, position = coming.result()
                if position < part.upto:
                    coming = ahead.submit(self._page, wire, part, position)
                for sent in pa.ipc.open_stream(answer.body):
                    if len(sent):
                        yield layout.batch(part.node.name, sent)
        wire.close()

    def _page(self, wire: Wire, part: Range, after: int) -> tuple[Answer, int]:
        """An answer, and up to where it has everything."""
        params = self.params | {"after": str(after), "upto": str(part.upto), "limit": str(PAGE)}
        answer = wire.patiently("GET", LOG, params, headers={"Accept": _ARROW}, patience_s=self.patience_s)
        first, _ = _ends(answer)
        if self.options.fail_on_data_loss:
            _check_complete(part, after, first, answer)
        elif "hanse-log-rewound" in answer.headers:
            return answer, part.upto
        read = int(answer.headers["hanse-log-read"])
        if read <= after:  # nothing that may be seen is behind it, up to the end that may be seen
            read = part.upto
        return answer, read


class LogReader(DataSourceReader):
    """What the logs have now."""

    def __init__(self, options: SourceOptions) -> None:
        self._reading = _Reading(options, READ_PATIENCE_S if options.patience_s is None else options.patience_s)

    def partitions(self) -> Sequence[InputPartition]:
        found: list[Range] = []
        for node in self._reading.options.nodes:
            first, last = self._reading.ends(node)
            found += self._reading.ranges(node, first - 1, last)
        return found or [Range(self._reading.options.nodes[0], 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.read(partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What the logs have and will have."""

    def __init__(self, options: SourceOptions) -> None:
        self._reading = _Reading(options, STREAM_PATIENCE_S if options.patience_s is None else options.patience_s)
        self._options = options
        self._goal: dict[str, int] | None = None  # where a query that is to end ends
        self._newest: dict[str, int] = {}
        self._away: dict[str, tuple[float, float]] = {}  # nodes: not to be asked before, and the pause after that
        self._wires: dict[str, Wire] = {}

    # --- in the driver ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {node.name: self._initial(node) for node in self._options.nodes}

    def _initial(self, node: NodeName) -> int:
        first, last = self._reading.ends(node)
        return last if self._options.starting == "latest" else first - 1

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.records_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._goal = {node.name: self._reading.ends(node)[1] for node in self._options.nodes}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """As far as the limit reaches, shared by the nodes in proportion to what each has."""
        start = dict(start)
        for node in self._options.nodes:
            if node.name not in start:  # it was added to a query that had been running
                start[node.name] = self._initial(node)
        is_short = self._goal is not None and any(self._goal.get(name, 0) < offset for name, offset in start.items())
        newest = self._goal if self._goal is not None and not is_short else self._ask(start)
        self._newest = dict(newest)
        lags = {node.name: max(0, newest.get(node.name, 0) - start[node.name]) for node in self._options.nodes}
        total = sum(lags.values())
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else total
        if total <= most:
            return start | {name: start[name] + lag for name, lag in lags.items()} | self._rewound(start, newest)
        shares = {name: lag * most // total for name, lag in lags.items()}
        for name in sorted(lags, key=lags.__getitem__, reverse=True):
            if sum(shares.values()) < most and shares[name] < lags[name]:
                shares[name] += 1
        return start | {name: start[name] + share for name, share in shares.items()}

    def _rewound(self, start: dict[str, int], newest: dict[str, int]) -> dict[str, int]:
        """Logs that are shorter than they were, where data may be lost: the query goes on from their new ends."""
        if self._options.fail_on_data_loss:
            return {}
        return {name: end for name, end in newest.items() if end < start.get(name, 0)}

    def _ask(self, start: dict[str, int]) -> dict[str, int]:
        """The ends of the logs; of a node that is away, where the query is."""
        newest = dict(start)
        for node in self._options.nodes:
            not_before, pause_s = self._away.get(node.name, (0.0, 0.5))
            if time.monotonic() < not_before:
                continue
            wire = self._wires.setdefault(node.name, self._reading.wire(node))
            try:
                answer = wire.ask("GET", LOG, {"limit": 0, "after": start[node.name]})
            except (OSError, http.client.HTTPException):
                answer = None
            if answer is None or answer.status in BUSY:
                self._away[node.name] = time.monotonic() + pause_s, min(2 * pause_s, PAUSE_S_MAX)
                continue
            self._away.pop(node.name, None)
            first, last = _ends(wire.checked(answer))
            if self._options.fail_on_data_loss:
                _check_complete(Range(node, start[node.name], last), start[node.name], first, answer)
                last = max(last, start[node.name])
            newest[node.name] = last
        return newest

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        return self._newest or None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found: list[Range] = []
        for node in self._options.nodes:
            upto = end.get(node.name, 0)
            after = start.get(node.name)
            found += self._reading.ranges(node, self._initial(node) if after is None else after, upto)
        return found or [Range(self._options.nodes[0], 0, 0)]

    def stop(self) -> None:
        for wire in self._wires.values():
            wire.close()

    # --- in the workers ---------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.read(partition)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_wires": {}}


def _ends(answer: Answer) -> tuple[int, int]:
    try:
        return int(answer.headers["hanse-log-start"]), int(answer.headers["hanse-log-end"])
    except KeyError:
        raise InvalidInput("this is no Hanse node, or one that is too old: its answer has no Hanse-Log-Start") from None


def _check_complete(part: Range, after: int, first: int, answer: Answer) -> None:
    """Raises InvalidInput if records behind `after` are gone."""
    remedy = "set failOnDataLoss to false to go on with what is there"
    if "hanse-log-rewound" in answer.headers:
        raise InvalidInput(
            f"the log of {part.node.name} ends at offset {answer.headers['hanse-log-rewound']}, and this query had read it up to "
            f"{after}: an older copy of the node's data was restored. Begin with a new checkpoint, or {remedy}"
        )
    if after < first - 1 and after < part.upto:
        lost = min(first - 1, part.upto)
        raise InvalidInput(
            f"the log of {part.node.name} begins at offset {first}: its records {after + 1} to {lost} ({lost - after}) were "
            f"removed before they were read. Let the node keep more ([store] log_records_max), or {remedy}"
        )


def _columns(options: SourceOptions) -> tuple[Column, ...]:
    named = parse_columns(options.columns)
    if not options.model:
        return named
    have = {column.name for column in named}
    return (*named, *(column for column in columns_of_model(_model(options)) if column.name not in have))


def _model(options: SourceOptions) -> Any:
    text = options.model
    try:
        if text.lstrip().startswith("{"):
            return msgspec.json.decode(text)
        if Path(text).is_file():
            return msgspec.json.decode(Path(text).read_bytes())
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the option model is no JSON Schema: {error}") from error
    wire = Wire(options.nodes[0].url, options.token, options.tenant)
    path = f"/hanse/v1/models/{text}"
    answer = wire.patiently("GET", path, {"resolved": "true"}, headers={"Accept": _SCHEMA}, patience_s=READ_PATIENCE_S)
    wire.close()
    return msgspec.json.decode(answer.body)
