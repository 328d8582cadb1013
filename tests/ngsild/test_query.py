"""What a query asks of an entity, part by part."""

from __future__ import annotations

import pytest

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import LOCATION, Entity
from hanse.ngsild.geo import parse_geo_query
from hanse.ngsild.query import EntityQuery, EntitySelector, matches

GEO = parse_geo_query({"georel": "near;maxDistance==1000", "geometry": "Point", "coordinates": "[8,40]"}, CORE)
FAR = parse_geo_query({"georel": "near;minDistance==1000", "geometry": "Point", "coordinates": "[8,40]"}, CORE)
ENTITY = Entity(
    id="urn:ngsi-ld:Building:1",
    types=("https://e.org/Building", "https://e.org/Tower"),
    scopes=("/Madrid/Gardens",),
    attributes={
        "https://e.org/level": [
            {"type": "Property", "value": 4, "observedAt": "2020-01-01T00:00:00Z"},
            {"type": "Property", "value": 9, "datasetId": "urn:d:1"},
        ],
        LOCATION: [{"type": "GeoProperty", "value": {"type": "Point", "coordinates": [8, 40]}}],
    },
    created_at="2024-05-01T00:00:00.000000Z",
    modified_at="2024-05-02T00:00:00.000000Z",
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (EntityQuery(), True),
        (EntityQuery(selectors=(EntitySelector(types=(("https://e.org/Building",),)),)), True),
        (EntityQuery(selectors=(EntitySelector(types=(("https://e.org/Building", "https://e.org/Tower"),)),)), True),
        (EntityQuery(selectors=(EntitySelector(types=(("https://e.org/Building", "https://e.org/X"),)),)), False),
        (EntityQuery(selectors=(EntitySelector(ids=("urn:x:1",)), EntitySelector(ids=("urn:ngsi-ld:Building:1",)))), True),
        (EntityQuery(selectors=(EntitySelector(ids=("urn:x:1",)),)), False),
        (EntityQuery(selectors=(EntitySelector(id_pattern="^urn:ngsi-ld:Build.*"),)), True),
        (EntityQuery(selectors=(EntitySelector(id_pattern="Vehicle"),)), False),
        (EntityQuery(selectors=(EntitySelector(ids=("urn:ngsi-ld:Building:1",), types=(("https://e.org/X",),)),)), False),
        (EntityQuery(attrs=("https://e.org/none", "https://e.org/level")), True),
        (EntityQuery(attrs=("https://e.org/none",)), False),
        (EntityQuery(q="https://e.org/level>8"), True),
        (EntityQuery(q="https://e.org/level>9"), False),
        (EntityQuery(q='https://e.org/level.observedAt=="2020-01-01T00:00:00Z"'), True),
        (EntityQuery(q="modifiedAt>2024-05-01T12:00:00Z"), True),
        (EntityQuery(q="modifiedAt>2024-05-01T12:00:00Z;createdAt>2024-05-01T12:00:00Z"), False),
        (EntityQuery(q="expiresAt"), False),
        (EntityQuery(q="https://e.org/level>8;createdAt"), True),
        (EntityQuery(scope_q="/Madrid/#"), True),
        (EntityQuery(scope_q="/Paris/#"), False),
        (EntityQuery(geo=GEO), True),
        (EntityQuery(geo=FAR), False),
        (EntityQuery(dataset_ids=("urn:d:2",)), True),
    ],
)
def test_matches(query: EntityQuery, expected: bool) -> None:
    assert matches(query, ENTITY) is expected
