"""Entities from Spark to a node: once, and what is refused is kept aside."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.filling import node_with, station

from hanse.pipeline import register, words
from hanse.pipeline.options import SinkOptions
from hanse.pipeline.sink import dead_letters, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture(autouse=True)
def known(spark: SparkSession) -> None:
    register(spark)


def start(frame: DataFrame, url: str, folder: Path, **options: Any) -> StreamingQuery:
    writer = frame.writeStream.format("hanse").options(node=url, deadLetters=str(folder / "dead"), **options)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()


def lines(folder: Path, name: str, *entities: Any) -> None:
    folder.mkdir(exist_ok=True)
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in entities)
    (folder / name).write_text(text + "\n")


def test_columns_become_attributes_with_their_quality(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("""SELECT 'urn:street:1' AS id, 'Street' AS type, -0.57D AS lon, 44.84D AS lat,
        timestamp '2026-03-01 12:00:00' AS observedAt, 'busy' AS state, CAST(NULL AS DOUBLE) AS nothing,
        named_struct('value', 41.5D, 'unitCode', 'GQ', 'precision', 90) AS no2, array('/bordeaux') AS scopes,
        '{"name": {"type": "Property", "value": "Rue"}}' AS attributes, 17L AS offset""")
    with node_with() as (url, node):
        frame.write.format("hanse").mode("append").options(node=url, deadLetters=str(tmp_path)).save()
        entity = node.get("urn:street:1")
    at = "2026-03-01T12:00:00.000000Z"
    assert entity == {
        "id": "urn:street:1",
        "type": "Street",
        "scope": "/bordeaux",
        "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [-0.57, 44.84]}},
        "name": {"type": "Property", "value": "Rue", "observedAt": at},
        "state": {"type": "Property", "value": "busy", "observedAt": at},
        "no2": {
            "type": "Property",
            "value": 41.5,
            "unitCode": "GQ",
            "observedAt": at,
            "precision": {"type": "Property", "value": 90},
        },
    }


def test_what_the_source_gives_the_sink_takes(spark: SparkSession, tmp_path: Path) -> None:
    with node_with([station(n, n) for n in range(5)]) as (url, node), node_with() as (other, copy):
        stream = spark.readStream.format("hanse").option("nodes", url).load()
        start(stream, other, tmp_path).awaitTermination()
        for n in range(5):
            id_ = f"urn:ngsi-ld:AirQualityObserved:{n}"
            assert copy.get(id_) == node.get(id_)


def test_a_batch_that_spark_does_again_is_done_once(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that dies after the sink is done and before Spark has noted it: the note is missing."""
    source = tmp_path / "in"
    lines(source, "a.jsonl", *(station(n, n) for n in range(30)))
    stream = spark.readStream.text(str(source)).withColumnRenamed("value", "entity")
    with node_with() as (url, node):
        start(stream, url, tmp_path, entitiesPerRequest=7).awaitTermination()
        commits = tmp_path / "checkpoint" / "commits"
        for file in (*commits.glob("0"), *commits.glob(".0.crc")):
            file.unlink()
        lines(source, "b.jsonl", station(99, 1))
        start(stream, url, tmp_path, entitiesPerRequest=7).awaitTermination()
        log = node.log(limit=1000)
    assert sorted(record["entity"] for record in log) == sorted(f"urn:ngsi-ld:AirQualityObserved:{n}" for n in (*range(30), 99))


def test_what_is_refused_is_kept_aside_and_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    broken = {"id": "urn:b", "type": "B", "location": {"type": "GeoProperty", "value": "here"}}
    lines(source, "a.jsonl", station(1, 1), {"id": "no uri", "type": "A"}, "{not json", broken, '{"type": "A"}', station(2, 2))
    stream = spark.readStream.text(str(source)).withColumnRenamed("value", "entity")
    with node_with() as (url, node):
        for _ in range(2):
            start(stream, url, tmp_path).awaitTermination()
            shutil.rmtree(tmp_path / "checkpoint" / "commits", ignore_errors=True)
        assert len(node.log()) == 2
    letters = dead_letters(tmp_path / "dead")
    assert sorted((letter["id"] or "", letter["reason"].partition(":")[0]) for letter in letters) == [
        ("", "it is no JSON object with an id"),
        ("", "it is not JSON"),
        ("no uri", "Bad request data"),
        ("urn:b", "Bad request data"),
    ]
    assert {letter["entity"] for letter in letters} >= {"{not json", json.dumps(broken)}
    assert {(letter["batch"], letter["partition"]) for letter in letters} == {(0, 0)}


def test_the_newest_of_one_entity_wins_within_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    values = [3, 1, 2, 5, 4]
    entities = [station(1, value) for value in values]
    for entity, value in zip(entities, values, strict=True):
        entity["no2"]["observedAt"] = f"2026-03-01T12:00:0{value}Z"
    frame = spark.createDataFrame([(json.dumps(entity),) for entity in entities], "entity string").coalesce(1)
    with node_with() as (url, node):
        frame.write.format("hanse").mode("append").options(
            node=url, deadLetters=str(tmp_path), entitiesPerRequest=2, inFlight=3
        ).save()
        log = node.log()
    assert [record["attributes"][0]["instance"]["value"] for record in log] == [1, 2, 3, 4, 5]


class Busy(BaseHTTPRequestHandler):
    """A node that is too busy at first, then passes on how it answers."""

    protocol_version = "HTTP/1.1"
    refusals: list[tuple[int, dict[str, str]]]
    asked: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.headers["Hanse-Batch"])
        status, headers = self.refusals.pop(0) if self.refusals else (204, {})
        body = b"" if status == 204 else b'{"title": "Too busy"}'
        if status == 207:
            error = {"position": 0, "error": {"title": "Too busy", "status": 503}}
            body = json.dumps({"success": [], "errors": [error]}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def busy(*refusals: tuple[int, dict[str, str]]) -> Iterator[tuple[str, list[str]]]:
    handler = type("Handler", (Busy,), {"refusals": list(refusals), "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sent(url: str, folder: Path, number: int = 3, **options: str) -> Any:
    import pyarrow as pa

    given = {"node": url, "deadLetters": str(folder), "patience": "30"} | options
    rows = pa.record_batch({"entity": [json.dumps(station(n, n)) for n in range(number)]})
    return send(SinkOptions.of(given), "q/7/3", iter([rows]))


def test_a_busy_node_is_asked_again_under_the_same_name(tmp_path: Path) -> None:
    with busy((503, {}), (429, {"Retry-After": "0"}), (207, {})) as (url, asked):
        written = sent(url, tmp_path)
    assert asked == ["q/7/3/0"] * 4
    assert (written.entities, written.refused) == (3, 0)


def test_a_node_that_stays_busy_ends_the_patience(tmp_path: Path) -> None:
    from hanse.pipeline.wire import NodeAway

    with busy(*[(503, {"Retry-After": "60"})] * 5) as (url, asked), pytest.raises(NodeAway, match="Too busy"):
        sent(url, tmp_path, patience="5")
    assert len(asked) == 1


def test_a_part_that_is_too_large_is_sent_in_halves(tmp_path: Path) -> None:
    with busy((413, {})) as (url, asked):
        sent(url, tmp_path, 5)
    assert asked == ["q/7/3/0", "q/7/3/0", "q/7/3/2"]


def test_one_entity_that_is_too_large_is_a_dead_letter(tmp_path: Path) -> None:
    with busy((413, {})) as (url, _):
        assert sent(url, tmp_path, 1).refused == 1
    assert dead_letters(tmp_path)[0]["reason"] == "it is larger than the node takes"


@pytest.mark.parametrize(
    ("options", "columns", "complaint"),
    [
        ({"node": "http://127.0.0.1:9"}, "'a' AS entity", "the sink needs the option deadLetters"),
        ({"deadLetters": "/tmp/x"}, "'a' AS entity", "the option nodes is missing"),
        ({"node": "http://127.0.0.1:9", "deadLetters": "/tmp/x"}, "1 AS a", "the sink needs a column `entity`"),
        ({"nodes": "a=http://x,b=http://y", "deadLetters": "/tmp/x"}, "'a' AS entity", "a sink writes to one node"),
    ],
)
def test_sinks_that_cannot_be_used(spark: SparkSession, options: dict[str, str], columns: str, complaint: str) -> None:
    with pytest.raises(Exception) as caught:
        spark.sql(f"SELECT {columns}").write.format("hanse").mode("append").options(**options).save()
    assert words(caught.value).startswith(complaint)
