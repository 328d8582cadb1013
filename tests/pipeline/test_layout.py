"""What the source makes of what a node sends, without Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from hanse.pipeline.schema import Layout

URI = "https://uri.etsi.org/ngsi-ld/default-context/"
AT = "2026-03-01T12:00:00Z"


def sent(*records: list[dict[str, Any]]) -> pa.RecordBatch:
    """As the node's log has them as Arrow; records are lists of what is logged of attributes."""
    several = len(records)
    return pa.record_batch(
        {
            "offset": pa.array(range(several), pa.int64()),
            "at": pa.array([0] * several, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "kind": ["updated"] * several,
            "operation": ["upsert"] * several,
            "entity": ["urn:s:1"] * several,
            "types": [[URI + "Station"]] * several,
            "scopes": pa.array([[]] * several, pa.list_(pa.string())),
            "attributes": [json.dumps(record) for record in records],
        }
    )


def made(*records: list[dict[str, Any]], layout: Layout | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (layout or Layout()).batch("a", sent(*records)).to_pylist()
    return rows


def logged(name: str, value: Any, **more: Any) -> dict[str, Any]:
    instance = {"type": "Property", "value": value, "createdAt": AT, "modifiedAt": AT} | more
    return {"name": URI + name, "instance": instance}


def test_names_become_short_and_what_the_node_sets_is_left_out() -> None:
    precision = {"type": "Property", "value": 90, "modifiedAt": AT, URI + "accuracy": [{"type": "Property", "value": 1}]}
    (row,) = made([logged("no2", 41.5, observedAt=AT, **{URI + "precision": [precision]}), {"name": URI + "gone"}])
    assert (row["type"], row["types"]) == ("Station", ["Station"])
    assert row["observedAt"].isoformat() == "2026-03-01T12:00:00+00:00"
    stated = {"type": "Property", "value": 90, "accuracy": {"type": "Property", "value": 1}}
    no2 = {"type": "Property", "value": 41.5, "observedAt": AT, "precision": stated}
    assert json.loads(row["attributes"]) == {"no2": no2, "gone": None}


def test_what_is_in_a_value_stays_as_it_is() -> None:
    value = {"createdAt": "then", "a:b": [{"modifiedAt": 1}], "c": 'quotes " and \\ and ü'}
    (row,) = made([logged("x", value)])
    assert json.loads(row["attributes"])["x"]["value"] == value


def test_several_instances_are_a_list() -> None:
    both = [{"type": "Property", "value": 1}, {"type": "Property", "value": 2}]
    (row,) = made([logged("x", 1), logged("x", 2, datasetId="urn:d"), logged("y", 0, **{URI + "p": both})])
    attributes = json.loads(row["attributes"])
    assert attributes["x"] == [{"type": "Property", "value": 1}, {"type": "Property", "value": 2, "datasetId": "urn:d"}]
    assert attributes["y"]["p"] == both


def test_the_newest_time_counts_however_it_is_written() -> None:
    (row,) = made([logged("a", 1, observedAt="2026-03-01T12:00:00Z"), logged("b", 1, observedAt="2026-03-01T13:30:00+02:00")])
    assert row["observedAt"].isoformat() == "2026-03-01T12:00:00+00:00"


def test_names_are_forgotten_before_they_are_too_many(monkeypatch: Any) -> None:
    monkeypatch.setattr("hanse.pipeline.schema._NAMES_KEPT", 3)
    layout = Layout()
    rows = made(*([logged(f"n{number}", number)] for number in range(20)), layout=layout)
    assert [json.loads(row["attributes"]) for row in rows] == [
        {f"n{number}": {"type": "Property", "value": number}} for number in range(20)
    ]
    assert len(layout._short) <= 3
