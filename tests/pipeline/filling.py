"""Entities for the tests of the pipeline, and nodes that have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.serving import serving, settings_with

import hanse
from hanse.client.sync import SyncNodeClient


def station(number: int, no2: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": f"urn:ngsi-ld:AirQualityObserved:{number}",
        "type": "AirQualityObserved",
        "no2": {
            "type": "Property",
            "value": no2,
            "observedAt": "2026-03-01T12:00:00Z",
            "precision": {"type": "Property", "value": 90},
        },
    } | more


def at(lon: float, lat: float) -> dict[str, Any]:
    return {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [lon, lat]}}


def upsert(node: SyncNodeClient, entities: list[dict[str, Any]]) -> None:
    answer = node.request("POST", "/ngsi-ld/v1/entityOperations/upsert", json=entities, params={"options": "update"})
    assert answer.status in (201, 204), answer.data


@contextmanager
def node_with(*batches: list[dict[str, Any]], **sections: Any) -> Iterator[tuple[str, SyncNodeClient]]:
    """A node in this process, with these entities."""
    with serving(settings_with(**sections)) as url, hanse.connect_sync(url) as node:
        for batch in batches:
            upsert(node, batch)
        yield url, node
