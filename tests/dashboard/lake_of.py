"""A pipeline's folder and a lake as a pipeline leaves them, made without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hanse.pipeline.lake_files import DATA, VERSIONS, Version
from hanse.pipeline.state import QueryState, State, write

PIPELINE = """
[source]
nodes = "n={url}"

[sink]
node = "{url}"

[lake]
folder = "lake"
tables = ["raw", "derived"]

[[capsules]]
name = "by-street"
kind = "aggregation"
types = ["AirQualityObserved"]
attributes = ["no2"]
quality = "accuracy>=medium"
place = "scope"
window = "1 minute"
output = "StreetAir"
guarantee = "completeness>=50"

[[capsules]]
name = "clean-streets"
kind = "filtering"
types = ["StreetAir"]
attributes = ["no2"]
quality = "completeness>=high"
output = "CleanStreet"
"""


def pipeline_in(folder: Path, url: str = "http://127.0.0.1:9090") -> Path:
    file = folder / "air.toml"
    file.write_text(PIPELINE.format(url=url))
    return file


def state_in(folder: Path, **more: Any) -> Path:
    """As if it had run: one capsule goes well, one has failed."""
    queries = [
        QueryState(
            name="capsule-by-street", rows=1200, rows_per_s=40.0, done_per_s=900.0, lag=17, made=60, below=4, late=3, restarts=1
        ),
        QueryState(name="capsule-clean-streets", status="failed", error="the node is away", restarts=2),
        QueryState(name="lake-raw", rows=5000, rows_per_s=41.0),
    ]
    state = State(name="air", file=str(folder / "air.toml"), master="local[2]", pid=1, started="2026-03-01T12:00:00Z")
    state.queries = queries
    for name, value in more.items():
        setattr(state, name, value)
    (folder / "air.pipeline").mkdir(exist_ok=True)
    write(folder / "air.pipeline", state)
    return folder / "air.pipeline"


def table_in(lake: Path, name: str, days: dict[str, list[dict[str, Any]]]) -> None:
    """A table with one file for each day."""
    paths = []
    for day, rows in days.items():
        path = Path(DATA) / f"date={day}" / "type=AirQualityObserved" / "part-0.parquet"
        (lake / name / path.parent).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), lake / name / path)
        paths.append(str(path))
    (lake / name / VERSIONS).mkdir()
    (lake / name / VERSIONS / "00000001.json").write_bytes(msgspec.json.encode(Version(1, tuple(paths))))
