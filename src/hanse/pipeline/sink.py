"""Entities from Spark to a node: `writeStream.format("hanse")`, each once, whatever is killed in between.

    (derived.writeStream.format("hanse").option("node", "http://127.0.0.1:9090")
     .option("deadLetters", "lake/dead-letters").option("checkpointLocation", "…").start())

What a row must have is said in `hanse.pipeline.entities`. Options: `node`, `deadLetters` (a folder that all workers can write:
one JSON line for each entity that the node refused, with the reason), `token`, `tenant`, `context` (the URL of an @context),
`update` (true: attributes that are not said stay; false: the entity is replaced), `entitiesPerRequest` (500), `inFlight` (2
requests of one partition at a time), `patience` (600 s: how long a node that is away or busy is waited for).

**Once.** The rows of a partition are sorted, so that they are in the same order whenever Spark computes them again, and are sent
in parts that are named `<query>/<batch>/<partition>/<first row>`. The node stores with each entity that it is done
(`hanse.node.batch_keys`); a part that comes again is done only as far as it was not. Documents of the same entity are sent in
order of `observedAt`.

**Dead letters** are in files that are named by batch and partition: if Spark does a batch again, they are written again, not
twice. `dead_letters(folder)` reads them. A node that refuses everything (a wrong token) stops the query.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from hanse.model import InvalidInput
from hanse.pipeline.entities import Document, check_columns, documents
from hanse.pipeline.options import SinkOptions
from hanse.pipeline.wire import BUSY, PAUSE_S, PAUSE_S_MAX, Answer, NodeAway, Wire

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

UPSERT: Final = "/ngsi-ld/v1/entityOperations/upsert"
TOO_LARGE: Final = 413
PARTLY: Final = 207
_LINK: Final = '<{}>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"'
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class Written(WriterCommitMessage):
    """What became of a partition."""

    def __init__(self, entities: int, refused: int) -> None:
        self.entities = entities
        self.refused = refused


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = SinkOptions.of(options)
        check_columns(schema.names)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return send(self.options, part_of_batch(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass


class BatchSink(DataSourceArrowWriter):
    """`frame.write.format("hanse").mode("append")`: a task that Spark runs again writes nothing twice; a job that a user does."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = SinkOptions.of(options)
        check_columns(schema.names)
        self._job = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        return send(self.options, f"{self._job}/0/{task.partitionId()}", iterator)


# --- in the workers -----------------------------------------------------------------------------------------------------


def part_of_batch() -> str:
    """What this task is of a stream: query/batch/partition, the same whenever Spark does it again."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
    if query is None or batch is None:
        raise InvalidInput("Spark does not say which query and batch this is, so nothing can be written once")
    return f"{query}/{batch}/{task.partitionId()}"


def send(options: SinkOptions, name: str, batches: Iterator[pa.RecordBatch]) -> Written:
    """All entities of one partition; `name` is query/batch/partition."""
    every: list[Document] = []
    letters: list[dict[str, Any]] = []
    for batch in batches:
        for document in documents(batch):
            if document.problem:
                letters.append(_letter(document, document.problem))
            else:
                every.append(document)
    every.sort()
    sender = _Sender(options, name)
    try:
        letters += sender.send(every)
    finally:
        sender.close()
    keep_letters(options.dead_letters, name, letters)
    return Written(len(every), len(letters))


class _Sender:
    def __init__(self, options: SinkOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._wires = [Wire(options.node, options.token, options.tenant) for _ in range(options.in_flight)]
        self._threads = ThreadPoolExecutor(options.in_flight)
        self._headers = {"Content-Type": "application/json"}
        if options.context:
            self._headers["Link"] = _LINK.format(options.context)

    def close(self) -> None:
        self._threads.shutdown()
        for wire in self._wires:
            wire.close()

    def send(self, every: list[Document]) -> list[dict[str, Any]]:
        """At most so many parts at a time; one that begins with the entity that the one before ended with waits for that."""
        letters: list[dict[str, Any]] = []
        going: deque[Future[list[dict[str, Any]]]] = deque()
        size = self._options.entities_per_request
        first = 0
        while first < len(every):
            last = min(first + size, len(every))
            if first and every[first - 1].id == every[first].id:
                while going:
                    letters += going.popleft().result()
            if len(going) >= self._options.in_flight:
                letters += going.popleft().result()
            going.append(self._threads.submit(self._part, every[first:last], first))
            first = last
        for future in going:
            letters += future.result()
        return letters

    def _part(self, part: list[Document], first: int) -> list[dict[str, Any]]:
        """Send until the node has dealt with it; gives what it refused."""
        wire = self._wires.pop()
        try:
            return self._dealt_with(wire, part, first)
        finally:
            self._wires.append(wire)

    def _dealt_with(self, wire: Wire, part: list[Document], first: int) -> list[dict[str, Any]]:
        import time

        options = self._options
        body = b"[" + b",".join(document.body for document in part) + b"]"
        headers = self._headers | {"Hanse-Batch": f"{self._name}/{first}"}
        params = {"options": "update" if options.update else "replace"}
        until = time.monotonic() + options.patience_s
        pause_s = PAUSE_S
        while True:
            answer = self._answer(wire, params, body, headers, until)
            if answer.status == TOO_LARGE and len(part) > 1:
                half = len(part) // 2
                return self._dealt_with(wire, part[:half], first) + self._dealt_with(wire, part[half:], first + half)
            if answer.status == TOO_LARGE:
                return [_letter(part[0], "it is larger than the node takes")]
            wire.checked(answer)
            if answer.status != PARTLY:
                return []
            errors = msgspec.json.decode(answer.body)["errors"]
            busy = [one for one in errors if one["error"].get("status") in BUSY]
            if not busy:
                return [_letter(part[one["position"]], _reason(one["error"])) for one in errors]
            if time.monotonic() + pause_s > until:
                raise NodeAway(f"the node {options.node} stays too busy: {_reason(busy[0]['error'])}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _answer(self, wire: Wire, params: dict[str, str], body: bytes, headers: dict[str, str], until: float) -> Answer:
        import time

        left_s = max(0.0, until - time.monotonic())
        return wire.patiently("POST", UPSERT, params, body, headers, patience_s=left_s, allowed=(TOO_LARGE,))


def _reason(error: dict[str, Any]) -> str:
    return ": ".join(str(error[name]) for name in ("title", "detail") if error.get(name)) or "no reason given"


# --- dead letters -------------------------------------------------------------------------------------------------------


def _letter(document: Document, reason: str) -> dict[str, Any]:
    return {"reason": reason, "id": document.id or None, "entity": document.body.decode()}


def keep_letters(folder: str, name: str, letters: list[dict[str, Any]]) -> None:
    """In one file for each batch and partition, whole or not at all; none if there is nothing to keep."""
    query, batch, partition = name.split("/")
    file = Path(folder, f"{query}-{batch}-{partition}.jsonl")
    if not letters:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    of_batch = {"query": query, "batch": int(batch), "partition": int(partition)}
    with partial.open("wb") as out:
        for letter in sorted(letters, key=lambda one: (one["id"] or "", one["entity"])):
            out.write(msgspec.json.encode(letter | of_batch) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    partial.replace(file)


def dead_letters(folder: str | Path) -> list[dict[str, Any]]:
    """What was refused: `reason`, `id`, `entity` (JSON text), `query`, `batch`, `partition`; in folders beneath it as well."""
    found = []
    for file in sorted(Path(folder).rglob("*.jsonl")):
        found += [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    return found
