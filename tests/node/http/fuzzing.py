# ruff: noqa: E501  (tables of odd values)
"""Requests that no sane client sends: valid ones for every route, bent in one or more places.

A body is a tree of JSON values in which `Raw` stands for bytes that JSON does not have, so that broken documents can be written
as well. Everything is drawn by hypothesis; `tests/node/http/test_fuzz.py` sends it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st
from msgspec import Struct

from hanse.node.http import health, openapi, streams
from hanse.node.http.app import PATHS

DEAD = "http://127.0.0.1:9/"  # nobody listens there
ENTITY = "urn:ngsi-ld:Fuzz:1"


class Raw(Struct, frozen=True):
    """Bytes instead of a JSON value."""

    data: bytes


class Pairs(Struct, frozen=True):
    """An object with its members as listed: names may come twice."""

    members: tuple[tuple[str, Any], ...]


class Request(Struct, frozen=True):
    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def __repr__(self) -> str:
        shown = self.body if len(self.body) < 3000 else self.body[:3000] + b"... %d bytes" % len(self.body)
        return f"{self.method} {self.target[:1000]!r} {[(n, v[:300]) for n, v in self.headers]} {shown!r}"


def dump(value: Any) -> bytes:
    match value:
        case Raw():
            return value.data
        case Pairs():
            return b"{" + b",".join(_name(name) + b":" + dump(item) for name, item in value.members) + b"}"
        case dict():
            return b"{" + b",".join(_name(name) + b":" + dump(item) for name, item in value.items()) + b"}"
        case list():
            return b"[" + b",".join(map(dump, value)) + b"]"
        case _:
            return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _name(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode("utf-8", "surrogatepass")


# --- what is valid ------------------------------------------------------------------------------------------------------

POINT = {"type": "Point", "coordinates": [8.68, 53.87]}
POLYGON = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
ATTRIBUTE = {
    "type": "Property",
    "value": 17.5,
    "observedAt": "2026-01-31T12:00:00.5Z",
    "unitCode": "CEL",
    "datasetId": "urn:ngsi-ld:Dataset:a",
    "accuracy": {"type": "Property", "value": 0.5},
}
ATTRIBUTES = {
    "temperature": ATTRIBUTE,
    "name": {"type": "LanguageProperty", "languageMap": {"en": "Bridge", "nl": ["Brug"]}},
    "location": {"type": "GeoProperty", "value": POINT},
    "eventGeofence": {"type": "GeoProperty", "value": POLYGON},
    "near": {"type": "Relationship", "object": "urn:ngsi-ld:Fuzz:2", "objectType": "Fuzz"},
    "all": {"type": "ListRelationship", "objectList": [{"object": "urn:ngsi-ld:Fuzz:2"}]},
    "many": [{"type": "Property", "value": 1}, {"type": "Property", "value": "b", "datasetId": "urn:ngsi-ld:Dataset:b"}],
    "kind": {"type": "VocabProperty", "vocab": "open"},
    "raw": {"type": "JsonProperty", "json": {"a": [None, {"b": 1}]}},
    "list": {"type": "ListProperty", "valueList": [1, "two", {"three": 3}]},
    "when": {"type": "Property", "value": {"@type": "DateTime", "@value": "2026-01-31T12:00:00Z"}},
    "scope": ["/Lubeck/Port"],
}
BENT = {"id": "urn:ngsi-ld:Fuzz:3", "type": "Fuzz", **ATTRIBUTES}
TEMPORAL = {
    "id": ENTITY,
    "type": "Fuzz",
    "temperature": [ATTRIBUTE, {"type": "Property", "value": 3, "observedAt": "2026-02-01T00:00:00Z"}],
    "scope": [{"type": "Property", "value": ["/a"], "observedAt": "2026-02-01T00:00:00Z"}],
}
QUERY = {
    "type": "Query",
    "entities": [{"type": "Fuzz", "id": [ENTITY], "idPattern": "urn.*"}],
    "q": "temperature>1",
    "geoQ": {"georel": "near;maxDistance==1000", "geometry": "Point", "coordinates": [8.6, 53.8], "geoproperty": "location"},
    "scopeQ": "/Lubeck/#",
    "lang": "en",
    "datasetId": ["urn:ngsi-ld:Dataset:a"],
    "pick": ["id", "temperature"],
    "temporalQ": {"timerel": "between", "timeAt": "2026-01-01T00:00:00Z", "endTimeAt": "2027-01-01T00:00:00Z", "lastN": 3},
    "aggrParams": {"aggrMethods": ["avg", "sum"], "aggrPeriodDuration": "PT1H"},
}
SUBSCRIPTION = {
    "type": "Subscription",
    "subscriptionName": "fuzz",
    "entities": [{"type": "Fuzz", "idPattern": "urn.*"}],
    "watchedAttributes": ["temperature"],
    "notificationTrigger": ["attributeUpdated"],
    "q": "temperature>1",
    "geoQ": {"georel": "within", "geometry": "Polygon", "coordinates": POLYGON["coordinates"]},
    "scopeQ": "/Lubeck",
    "csf": "a==1",
    "isActive": True,
    "expiresAt": "2126-01-31T12:00:00Z",
    "throttling": 5,
    "lang": "en",
    "datasetId": ["urn:ngsi-ld:Dataset:a"],
    "notification": {
        "attributes": ["temperature"],
        "format": "concise",
        "sysAttrs": True,
        "showChanges": False,
        "endpoint": {
            "uri": DEAD + "notify",
            "accept": "application/json",
            "timeout": 100,
            "cooldown": 100,
            "receiverInfo": [{"key": "X-Key", "value": "1"}],
            "notifierInfo": [{"key": "MQTT-QoS", "value": "1"}],
        },
    },
}
REGISTRATION = {
    "type": "ContextSourceRegistration",
    "endpoint": DEAD,
    "information": [{"entities": [{"type": "Fuzz", "id": ENTITY, "idPattern": "urn.*"}], "propertyNames": ["temperature"]}],
    "mode": "inclusive",
    "operations": ["retrieveEntity", "federationOps"],
    "location": POLYGON,
    "observationInterval": {"startAt": "2026-01-31T12:00:00Z", "endAt": "2027-01-31T12:00:00Z"},
    "expiresAt": "2126-01-31T12:00:00Z",
    "scope": ["/a/b"],
    "tenant": "other",
    "management": {"timeout": 10, "cacheDuration": "PT1H", "localOnly": False},
    "contextSourceInfo": [{"key": "a", "value": "b"}],
    "refreshRate": "PT1H",
    "csourceProperty": 1,
}
SNAPSHOT = {
    "type": "Snapshot",
    "snapshotQueries": [{"type": "Query", "entities": [{"type": "Fuzz"}]}],
    "snapshotTemporalQueries": [{"type": "Query", "entities": [{"type": "Fuzz"}], "temporalQ": QUERY["temporalQ"]}],
    "snapshotPriority": 3,
    "snapshotLifetime": "PT1H",
    "endpoint": DEAD,
    "receiverInfo": [{"key": "a", "value": "b"}],
}
NATIVE_SUBSCRIPTION = {
    "selectors": [{"type": "Fuzz", "id": "a", "id_pattern": ".*", "topic": "t"}],
    "attributes": ["load"],
    "q": "load>3",
    "quality": "accuracy>0.5",
    "geofence": POLYGON,
    "scopes": {"place": "harbour"},
    "expires_at_ms": 4_000_000_000_000,
}
CONTEXT = {
    "@context": {
        "temperature": "https://example.org/temperature",
        "ex": "https://example.org/",
        "near": {"@id": "ex:near", "@type": "@id"},
    }
}
TOML = """
[[viewpoints]]
name = "geography"
[[viewpoints.dimensions]]
name = "place"
scales = ["city", "quarter"]
[[viewpoints.dimensions.scopes]]
name = "harbour"
scale = "city"
"""

N, H = "/ngsi-ld/v1", "/hanse/v1"
BODIES: dict[str, Any] = {
    f"POST {N}/entities": BENT,
    f"PUT {N}/entities/{{id}}": {"type": "Fuzz", **ATTRIBUTES},
    f"PATCH {N}/entities/{{id}}": ATTRIBUTES,
    f"POST {N}/entities/{{id}}/attrs": ATTRIBUTES,
    f"PATCH {N}/entities/{{id}}/attrs": ATTRIBUTES,
    f"PATCH {N}/entities/{{id}}/attrs/{{attribute}}": ATTRIBUTE,
    f"PUT {N}/entities/{{id}}/attrs/{{attribute}}": ATTRIBUTE,
    f"POST {N}/entityOperations/query": {key: value for key, value in QUERY.items() if key not in ("temporalQ", "aggrParams")},
    f"POST {N}/entityOperations/create": [BENT, BENT | {"id": ENTITY}],
    f"POST {N}/entityOperations/upsert": [BENT, BENT | {"id": "urn:ngsi-ld:Fuzz:4"}],
    f"POST {N}/entityOperations/update": [BENT, BENT | {"id": ENTITY}],
    f"POST {N}/entityOperations/merge": [BENT, BENT | {"id": ENTITY}],
    f"POST {N}/entityOperations/delete": ["urn:ngsi-ld:Fuzz:3", "urn:ngsi-ld:Fuzz:4"],
    f"POST {N}/subscriptions": SUBSCRIPTION,
    f"PATCH {N}/subscriptions/{{id}}": SUBSCRIPTION,
    f"POST {N}/temporal/entities": TEMPORAL,
    f"POST {N}/temporal/entities/{{id}}/attrs": {"temperature": TEMPORAL["temperature"]},
    f"PATCH {N}/temporal/entities/{{id}}/attrs/{{attribute}}/{{instance}}": {"temperature": [ATTRIBUTE]},
    f"POST {N}/temporal/entityOperations/query": QUERY,
    f"POST {N}/jsonldContexts": CONTEXT,
    f"POST {N}/csourceRegistrations": REGISTRATION,
    f"PATCH {N}/csourceRegistrations/{{id}}": REGISTRATION,
    f"POST {N}/csourceSubscriptions": SUBSCRIPTION,
    f"PATCH {N}/csourceSubscriptions/{{id}}": SUBSCRIPTION,
    f"PATCH {N}/entityMaps/{{id}}": {"expiresAt": "2126-01-31T12:00:00Z"},
    f"POST {N}/snapshots": SNAPSHOT,
    f"PATCH {N}/snapshots/{{id}}": {"snapshotPriority": 3, "snapshotLifetime": "PT1H"},
    f"POST {N}/snapshots/{{id}}/clone": {"type": "Snapshot", "snapshotPriority": 3},
    f"PUT {H}/clients/{{client}}": {"location": {"lat": 53.8, "lon": 10.6}, "endpoint": "", "previous": None},
    f"PUT {H}/clients/{{client}}/location": {"lat": 53.8, "lon": 10.6},
    f"POST {H}/clients/{{client}}/notifications": {
        "id": "n1", "topic": "t", "types": ["Fuzz"], "entity": "a", "attributes": {"load": 3}, "quality": {"accuracy": 0.9},
        "payload": {"any": 1}, "location": {"lat": 1, "lon": 2}, "geofence": POLYGON, "scopes": {}, "published_at_ms": 5,
    },
    f"PUT {H}/clients/{{client}}/subscriptions/{{id}}": NATIVE_SUBSCRIPTION,
    f"PUT {H}/clients/{{client}}/advertisements/{{id}}": {
        key: value for key, value in NATIVE_SUBSCRIPTION.items() if key not in ("attributes", "geofence")
    },
    f"PUT {H}/scopes": Raw(TOML.encode()),
}  # fmt: skip

OPERATIONS: list[tuple[str, str, tuple[str, ...]]] = [
    (method, path.template, endpoint.params) for path in PATHS for method, endpoint in path.endpoints.items()
] + [
    ("GET", path, params)
    for path, params in {
        "/healthz": (),
        "/readyz": (),
        "/metrics": (),
        "/hanse/v1/bounds": (),
        "/openapi.json": (),
        "/docs": (),
        "/hanse/v1/notifications": ("subscription", "lastEventId", "tenant"),
        "/hanse/v1/subscribe": tuple(sorted(streams.SUBSCRIBE_PARAMS)),
    }.items()
]
assert {getattr(route, "path", "") for route in (*health.routes, *openapi.routes, *streams.routes)} - {f"{H}/stream"} <= {
    path for _, path, _ in OPERATIONS
}

PLACES = {  # what stands for a name in a path
    "attribute": ["temperature", "many", "location", "near", "scope", "type", "id", "https://example.org/temperature"],
    "instance": ["urn:ngsi-ld:attribute:instance:1"],
    "type": ["Fuzz"],
    "client": ["c1", "c2"],
    "dimension": ["place"],
    "scope": ["harbour"],
}
IDS = {  # what stands for an id below a path
    f"{N}/entities/": [ENTITY, "urn:ngsi-ld:Fuzz:2", "urn:ngsi-ld:Fuzz:3"],
    f"{N}/temporal/entities/": [ENTITY, "urn:ngsi-ld:Fuzz:2", "urn:ngsi-ld:Fuzz:3"],
    f"{N}/subscriptions/": ["urn:ngsi-ld:Subscription:fuzz"],
    f"{N}/csourceRegistrations/": ["urn:ngsi-ld:CSR:fuzz"],
    f"{N}/csourceSubscriptions/": ["urn:ngsi-ld:Subscription:fuzz"],
    f"{N}/snapshots/": ["urn:ngsi-ld:Snapshot:fuzz"],
    f"{H}/clients/": ["s1", "s2"],
    f"{H}/dead-letters/": ["1", "2"],
}


def places(template: str, name: str) -> list[str]:
    if name == "id":
        return next((ids for path, ids in IDS.items() if template.startswith(path)), ["urn:x:1"])
    return PLACES.get(name, ["x"])


def sown() -> list[Request]:
    """What makes a node that the requests above find something in."""
    entity = {"id": ENTITY, "type": "Fuzz", **ATTRIBUTES}
    other = entity | {"id": "urn:ngsi-ld:Fuzz:2", "near": {"type": "Relationship", "object": ENTITY}}
    kept = {"id": "urn:ngsi-ld:Subscription:fuzz", **SUBSCRIPTION}
    return [
        _plain("POST", f"{N}/entityOperations/upsert", [entity, other]),
        _plain("POST", f"{N}/subscriptions", kept),
        _plain("POST", f"{N}/csourceSubscriptions", kept),
        _plain("POST", f"{N}/csourceRegistrations", {"id": "urn:ngsi-ld:CSR:fuzz", **REGISTRATION}),
        _plain("POST", f"{N}/snapshots", {"id": "urn:ngsi-ld:Snapshot:fuzz", **SNAPSHOT}),
        _plain("PUT", f"{H}/clients/c1", {}),
        _plain("PUT", f"{H}/scopes", Raw(TOML.encode())),
        _plain("PUT", f"{H}/clients/c1/subscriptions/s1", NATIVE_SUBSCRIPTION),
    ]


def _plain(method: str, path: str, body: Any) -> Request:
    data = dump(body)
    media_type = b"application/toml" if isinstance(body, Raw) else b"application/json"
    return Request(method, path.encode(), ((b"Content-Type", media_type), (b"Content-Length", b"%d" % len(data))), data)


VALUES = {  # what may be said for a parameter, right or not
    "id": [ENTITY, f"{ENTITY},urn:ngsi-ld:Fuzz:2"],
    "type": ["Fuzz", "*", "(Fuzz;Other),More", "(" * 200 + "a" + ")" * 200, "Fuzz|", ",".join(["(a,b)"] * 12), ";".join(["(a,b)"] * 30)],
    "idPattern": ["urn.*", "(a*)*b", "(" * 2000, "[", "a{1000}{1000}", "\\p{L}+", "(?=a)"],
    "attrs": ["temperature", "temperature,many", ",", "a" * 3000],
    "pick": ["temperature", "near{name,near{name}}", "near{" * 40, "id,type", "{}", "a|b"],
    "omit": ["temperature", "near{name}", "}", "id"],
    "options": ["keyValues", "sysAttrs,concise", "temporalValues", "aggregatedValues", "noOverwrite", "update", "nonsense"],
    "format": ["concise", "simplified", "temporalValues", "aggregatedValues", "x"],
    "lang": ["en", "*", "en;q=0.5,nl", ";;;", "x" * 100],
    "q": [
        "temperature>1", 'name=="x"', "temperature==1..5", "near.name~=a.*", "(" * 3000 + "a" + ")" * 3000, "a" * 10000, "a==1" + "|a==1" * 1500,
        "temperature.accuracy<1e999", 'a=="' + "\\" * 500 + '"', "a[b.c]==1;!d", "~=", "a~=(a*)*b", "a==2026-01-31T99:00:00Z", "when>2026-01-31T00:00:00Z",
        "a==" + "9" * 5000, "a." * 500 + "b==1", "many==1,2,3", "id==1", "observedAt>1", "a=='x'", "list[0]==1", "near{temperature>1}",
    ],
    "csf": ["a==1", "(("],
    "georel": ["near;maxDistance==1000", "within", "near;maxDistance==1e400", "near;minDistance==-1", "near;maxDistance==abc", "near;maxDistance==1e300", "disjoint", "equals", "x"],
    "geometry": ["Point", "Polygon", "LineString", "MultiPolygon", "GeometryCollection", "x"],
    "coordinates": [
        "[8.6,53.8]", "[[[0,0],[1,0],[1,1],[0,0]]]", "[1e999,0]", "[NaN,0]", "[" * 5000, "[[0,0],[0,0]]", "[8.6,530000]", "[null,1]", '["a","b"]',
        json.dumps([[[i % 180, i % 90] for i in range(1500)] + [[0, 0]]]), "[[[0,0],[2,2],[0,2],[2,0],[0,0]]]", "[" + "9" * 400 + ",0]", "[[0,0],[0,0],[0,0],[0,0]]",
    ],
    "geoproperty": ["location", "operationSpace", "a b", "x" * 3000],
    "geometryProperty": ["location", "temperature", ""],
    "scopeQ": ["/Lubeck", "/Lubeck/#", "/+/Port,/a;/b", "(" * 1000, "/#/#/#", ",".join(["/a"] * 3000), ";".join(["(/a,/b)"] * 40), "+"],
    "limit": ["0", "1", "1000", "1001", "-1", "99999999999999999999", "1e3", "٣", "²"],
    "offset": ["0", "5", "-1", "9007199254740992", "99999999999999999999", " 1"],
    "count": ["true", "false", "TRUE", "1"],
    "local": ["true", "false", "x"],
    "details": ["true", "x"],
    "orderBy": ["temperature", "temperature;desc,id", "near.name", "geo:distance", "location;dist-asc", "x" * 3000, ",".join(["a"] * 2000), ";;", "modifiedAt"],
    "orderFrom": ["[8.6,53.8]", "[1e400,0]", "x"],
    "orderGeometry": ["Point", "Polygon", "x"],
    "collation": ["en", "und-u-ks-level1", "x" * 300],
    "join": ["inline", "flat", "@none", "x"],
    "joinLevel": ["1", "16", "17", "-1", "99999999999999999999"],
    "containedBy": [ENTITY, "x"],
    "datasetId": ["@none", "urn:ngsi-ld:Dataset:a", "@none,urn:ngsi-ld:Dataset:b", "x y"],
    "deleteAll": ["true", "x"],
    "timerel": ["before", "after", "between", "x"],
    "timeAt": ["2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "0000-00-00T00:00:00Z", "2026-01-01T00:00:00+01:00", "x"],
    "endTimeAt": ["2027-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2016-12-31T23:59:60Z", "x"],
    "timeproperty": ["observedAt", "modifiedAt", "deletedAt", "x"],
    "lastN": ["1", "0", "-1", "99999999999999999999", "x"],
    "aggrMethods": ["avg,sum,min,max,stddev,sumsq,totalCount,distinctCount", "avg", "x", ",,"],
    "aggrPeriodDuration": ["PT1H", "PT0S", "PT0.000001S", "P999999Y", "P1M", "P", "PT", "P1Y1M1DT1H1M1.5S", "-P1D", "P99999999999D"],
    "observedAt": ["2026-01-01T00:00:00Z", "x", "2026-02-30T00:00:00Z"],
    "keep": ["temperature", ",", ""],
    "drop": ["temperature", ",", ""],
    "entityMap": ["true", "false", "x"],
    "entityMapLifetime": ["PT1H", "P999999Y", "x", "PT0S"],
    "splitEntities": ["true", "x"],
    "kind": ["Hosted", "Cached", "x"],
    "reload": ["true", "x"],
    "after": ["0", "4611686018427387904", "99999999999999999999", "-1"],
    "wait": ["0", "0.01", "-1", "nan", "inf", "1e999", "x"],
    "lat": ["53.8", "91", "nan", "1e999", "x"],
    "lon": ["10.6", "-181", "inf", "x"],
    "topic": ["t", "#", "a" * 3000, ""],
    "entity": ["a"],
    "advertisement": ["a1"],
    "subscription": ["urn:ngsi-ld:Subscription:fuzz", "x"],
    "lastEventId": ["1", "x", "99999999999999999999"],
    "watched": ["temperature", ","],
    "trigger": ["entityCreated", "x"],
    "throttling": ["1", "nan", "inf", "-1", "1e999", "x"],
    "showChanges": ["true", "x"],
    "tenant": ["", "nobody", "../../x"],
    "context": [DEAD + "c.jsonld", "x", "file:///etc/passwd"],
    "via": ["x"],
    "expandValues": ["kind", ","],
    "jsonKeys": ["raw", ","],
}  # fmt: skip


# --- what is not --------------------------------------------------------------------------------------------------------

_DEEP = [Raw(b"[" * n + b"]" * n) for n in (30, 70, 400, 20_000)] + [
    Raw(b'{"a":' * n + b"1" + b"}" * n) for n in (30, 70, 400, 20_000)
]
_NUMBERS: list[Any] = [
    0, -1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**400, 0.1, 1e308, -1e308, 5e-324, Raw(b"1e999"), Raw(b"-1e999"), Raw(b"1e-999"),
    Raw(b"NaN"), Raw(b"Infinity"), Raw(b"-0"), Raw(b"-0.0"), Raw(b"00"), Raw(b"0x10"), Raw(b"9" * 5000), Raw(b"0." + b"1" * 5000), Raw(b"1e" + b"9" * 50),
]  # fmt: skip
_TEXTS: list[Any] = [
    "", " ", "\x00", "a\x00b", "\u202e", "\ufeff", "é\U0001f600", "x" * 70_000, "urn:ngsi-ld:null", "urn:", "urn:x:" + "y" * 3000, ":", "http://", "http://[", "http://[::1",
    "http://127.0.0.1:99999/", "http://127.0.0.1:abc/", "http://user:pa ss@127.0.0.1:9/", "mqtt://", "mqtt://127.0.0.1:9/a/#", "mqtt://127.0.0.1:9/" + "a" * 70_000, "file:///etc/passwd",
    "javascript:1", "2026-01-31T12:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "2026-02-30T00:00:00Z", "-1", "1e999", "NaN", "*", "@id", "@type", "@none", "@context",
    "@value", "__proto__", "__class__", "type", "Property", "Relationship", "GeoProperty", "LanguageProperty", "ListProperty", "JsonProperty", "VocabProperty",
    "%00", "%ff", "a/b", "..", "';DROP TABLE entities;--", "\r\nX: 1", "PT1H", "P999999999Y", "a==1", "((((", "/a/b", "/" + "a/" * 3000, "(a*)*b", "[", "inclusive", "simplified",
    Raw(b'"\\ud800"'), Raw(b'"\\udfff\\ud800"'), Raw(b'"\xff\xfe"'), Raw(b'"\xed\xa0\x80"'), Raw(b'"\x01\n"'), Raw(b'"\\x"'), Raw(b'"\\u12"'), Raw(b'"open'), Raw(b"'a'"),
]  # fmt: skip
_COORDINATES: list[Any] = [
    [], [0], [0, 0, 0, 0, 0], [181, 0], [0, 91], [None, None], ["1", "2"], [[0, 0]], [True, False], [10**400, 0], [Raw(b"1e999"), 0], [[[[[0, 0]]]]],
    [[0, 0], [0, 0]], [[[0, 0], [0, 0], [0, 0], [0, 0]]], [[[0, 0], [2, 2], [0, 2], [2, 0], [0, 0]]], [[[180, 90], [-180, 90], [-180, -90], [180, -90], [180, 90]]],
    [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], [[5, 5], [6, 5], [6, 6], [5, 5]]], {"a": 1}, [[i % 180, i % 90] for i in range(3000)], [1e-320, 5e-324], [0, 0, 1e308],
]  # fmt: skip
_THINGS: list[Any] = [
    None, True, False, [], {}, [[]], [{}], [None], {"": 1}, {"a": None}, {"@value": 1}, {"@value": {}, "@type": "DateTime"}, {"@id": 5}, {"@type": []}, {"@list": [1]},
    {"type": "Property"}, {"type": []}, {"type": "Property", "value": None}, {"type": "Relationship", "object": []}, {"type": "Relationship", "object": [1]},
    {"type": "Relationship", "object": ["urn:a:1"] * 300}, {"type": "GeoProperty", "value": {}}, {"type": "GeoProperty", "value": {"type": "Point"}},
    {"type": "Property", "value": {"type": "Point"}}, {"type": "Property", "value": {"type": "Point", "coordinates": []}}, {"type": "Property", "value": {"type": "Polygon", "coordinates": [[]]}},
    {"type": "LanguageProperty", "languageMap": []}, {"type": "LanguageProperty", "languageMap": {"": ""}}, {"type": "ListProperty", "valueList": {}}, {"type": "JsonProperty", "json": 1},
    {"type": "VocabProperty", "vocab": {}}, {"value": 1, "object": "urn:a"}, {"type": "Property", "value": 1, "value2": {"type": "Property", "value": "urn:ngsi-ld:null"}},
    "urn:ngsi-ld:null", {"type": "Property", "value": "urn:ngsi-ld:null"}, {"type": "LanguageProperty", "languageMap": {"@none": "urn:ngsi-ld:null"}}, {"x" * 3000: 1},
    {"a b": 1, "a\x00": 2, "\U0001f600": 3, "a.b": 4, "@a": 5, "http://[": 6}, [1] * 3000, {f"k{i}": i for i in range(3000)}, ["a"] * 3000,
]  # fmt: skip
_CONTEXTS: list[Any] = [
    DEAD + "c.jsonld", [DEAD + "c.jsonld", {}], "", "x", 5, [], [[[[]]]], {}, None, {"a": None}, {"a": 5}, {"a": {"@id": 5}}, {"@vocab": 5}, {"@vocab": "x y"}, {"@base": "http://["},
    {"a": "b", "b": "a"}, {"a": "a:a"}, {"a": {"@id": "a"}}, {"a": {"@context": {"a": {"@context": {}}}}}, {"@import": DEAD + "i.jsonld"}, {"@import": 5}, {"@version": 1.0}, {"@version": 1.1},
    {"@propagate": 1}, {"@protected": True, "type": "x:y"}, {"type": "http://x/y"}, {"id": "@type"}, {"@id": "x"}, {"a": {"@reverse": "b"}}, {"a": {"@container": "@x"}}, {"a": {"@container": ["@graph", "@id"]}},
    {"a": {"@type": "@x"}}, {"a": {"@language": 5}}, {"a": {"@nest": 5}}, {"a": {"@prefix": True, "@id": "x:y/z"}}, {"a:b": "c:d"}, {"": "x:y"}, {"a b": "http://x/ y"}, {f"t{i}": f"http://x/{i}" for i in range(2000)},
    [{"a": f"http://x/{i}"} for i in range(300)], {"t": "@type", "i": "@id", "v": "@value"}, {"temperature": "@type"}, {"temperature": None}, {"temperature": "@id"}, {"Fuzz": "temperature:x"},
    {"temperature": "many:a", "many": "temperature:b"}, Raw(b'{"a":' * 60 + b"1" + b"}" * 60), Raw(b'{"a":{"@context":' * 200 + b"{}" + b"}}" * 200), Raw(b"[" * 900 + b"]" * 900), "file:///etc/passwd",
    {"temperature": "\x00"}, {"temperature": Raw(b'"\\ud800:a"')}, {"temperature": "urn:" + "x" * 5000},
]  # fmt: skip

junk = st.one_of(
    st.sampled_from(_NUMBERS),
    st.sampled_from(_TEXTS),
    st.sampled_from(_THINGS),
    st.sampled_from(_COORDINATES),
    st.sampled_from(_CONTEXTS),
    st.sampled_from(_DEEP),
    st.sampled_from([POINT, POLYGON, ATTRIBUTE, ATTRIBUTES, SUBSCRIPTION, QUERY]),
    st.text(max_size=12),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
names = st.one_of(
    st.sampled_from([text for text in _TEXTS if isinstance(text, str)]),
    st.sampled_from(["id", "type", "@context", "scope", "value", "object", "q", "expiresAt", "createdAt", "instanceId", "datasetId", "observedAt"]),
    st.text(max_size=8),
)  # fmt: skip


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*at, key))


@st.composite
def bent(draw: st.DrawFn, value: Any) -> Any:
    """The value with something else at one place of it."""
    at = draw(st.sampled_from(list(_places(value))))
    return _bent(draw, value, at)


def _bent(draw: st.DrawFn, value: Any, at: tuple[Any, ...]) -> Any:
    if at:
        key, *rest = at
        if isinstance(value, list):
            return [_bent(draw, item, tuple(rest)) if i == key else item for i, item in enumerate(value)]
        return {name: _bent(draw, item, tuple(rest)) if name == key else item for name, item in value.items()}
    how = draw(st.integers(0, 9))
    if how == 0:
        return [value]
    if how == 1:
        return {"value": value}
    if how == 2 and isinstance(value, dict):
        return Pairs((*value.items(), (draw(st.sampled_from([*value, "id"])), draw(junk))))
    if how == 3 and isinstance(value, dict) and value:
        gone = draw(st.sampled_from(list(value)))
        return {name: item for name, item in value.items() if name != gone}
    if how in (4, 5) and isinstance(value, dict):
        return value | {draw(names): draw(junk)}
    if how == 6 and isinstance(value, list):
        return value * draw(st.sampled_from([0, 2, 300]))
    return draw(junk)


@st.composite
def bodies(draw: st.DrawFn, value: Any, *, ld: bool) -> bytes:
    if isinstance(value, Raw):
        data = value.data
    else:
        if ld and isinstance(value, dict):
            value = value | {"@context": draw(st.sampled_from(_CONTEXTS) | st.just([]))}
        for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 4]))):
            if isinstance(value, (dict, list)):
                value = draw(bent(value))
        data = dump(value)
    match draw(st.integers(0, 24)):
        case 0:
            return data[: draw(st.integers(0, len(data)))]
        case 1:
            at = draw(st.integers(0, len(data)))
            return data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at:]
        case 2:
            return draw(
                st.sampled_from(
                    [b"", b" ", b"\xef\xbb\xbf" + data, data.decode("utf-8", "replace").encode("utf-16"), data + data, b"null"]
                )
            )
        case _:
            return data  # fmt: skip


_HEADERS: dict[bytes, list[bytes]] = {
    b"Accept": [
        b"application/json", b"application/ld+json", b"application/geo+json", b"*/*", b"", b",", b"text/html", b"application/json;q=nan", b"application/json;q=-1, */*;q=1e999",
        b"application/json;q=x", b"a/b;" * 500, b"\xff\xfe", b"application/vnd.apache.arrow.stream", b"application/*",
    ],
    b"Link": [
        b'<http://127.0.0.1:9/c.jsonld>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"', b"<>", b'<>; rel="http://www.w3.org/ns/json-ld#context"', b"<" * 3000, b";,;,",
        b'<x y>; rel="http://www.w3.org/ns/json-ld#context"', b'<\xff>; rel="http://www.w3.org/ns/json-ld#context"', b'<http://[>; rel="http://www.w3.org/ns/json-ld#context"',
        b'<file:///etc/passwd>; rel="http://www.w3.org/ns/json-ld#context"', b'<a>; rel="b", <http://127.0.0.1:9/d>; rel="http://www.w3.org/ns/json-ld#context c"', b"<a" + b";rel=" * 1000,
        b'<http://127.0.0.1:99999/>; rel="http://www.w3.org/ns/json-ld#context"', b'<http://\xc3\xa9.\xff/>; rel="http://www.w3.org/ns/json-ld#context"',
    ],
    b"NGSILD-Tenant": [b"", b"nobody", b"../../etc", b"a b", b"\xff", b"x" * 300, b"a/b", b"%00"],
    b"Content-Type": [
        b"application/json", b"application/ld+json", b"application/merge-patch+json", b"application/json; charset=utf-8", b"application/json;charset=utf-16;;;=", b"APPLICATION/JSON", b"text/plain", b"",
        b"\xff", b"application/xml", b"application/toml", b"multipart/form-data", b"application/json, application/ld+json",
    ],
    b"Prefer": [b"body=json", b"return=minimal", b"\xff", b"body=ld+json", b"ngsi-ld=1.6", b";" * 3000],
    b"NGSILD-EntityMap": [b"x", b"/ngsi-ld/v1/entityMaps/urn:x:1", b"\xff", b""],
    b"NGSILD-Snapshot": [b"x", b"urn:ngsi-ld:Snapshot:1", b"\xff"],
    b"Via": [b"1.1 hanse", b"x" * 3000, b""],
    b"Last-Event-ID": [b"1", b"x", b"\xff", b"99999999999999999999"],
    b"Transfer-Encoding": [b"identity"],
    b"Expect": [b"100-continue", b"x"],
    b"Content-Encoding": [b"gzip"],
    b"If-None-Match": [b"*"],
    b"Range": [b"bytes=0-1", b"x"],
}  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> Request:
    method, template, params = draw(st.sampled_from(OPERATIONS))
    body = BODIES.get(f"{method} {template}")
    headers: dict[bytes, bytes] = {}
    ld = False
    data = b""
    if body is not None:
        ld = draw(st.integers(0, 3)) == 0
        headers[b"Content-Type"] = b"application/ld+json" if ld else b"application/json"
        if template.endswith("/scopes"):
            headers[b"Content-Type"] = b"application/toml"
        data = draw(bodies(body, ld=ld))
    elif method in ("POST", "PUT", "PATCH") or draw(st.integers(0, 9)) == 0:
        data = draw(st.sampled_from([b"", b"{}", b"[", b"x"]))
    for name in draw(st.lists(st.sampled_from(list(_HEADERS)), max_size=2)) if draw(st.integers(0, 3)) == 0 else ():
        headers[name] = draw(st.sampled_from(_HEADERS[name]))
    if data or method != "GET":
        headers[b"Content-Length"] = b"%d" % len(data)
    if draw(st.integers(0, 60)) == 0:
        method = draw(st.sampled_from(["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "POST", "GET", "TRACE"]))
    return Request(method, draw(_targets(template, params)), tuple(headers.items()), data)


@st.composite
def _targets(draw: st.DrawFn, template: str, params: tuple[str, ...]) -> bytes:
    """Mostly what could be asked for, so that what is wrong stands out."""

    def place(found: re.Match[str]) -> str:
        known = places(template, found[1])
        if draw(st.integers(0, 9)):
            return quote(draw(st.sampled_from(known)), safe=":")
        odd = [
            "",
            "%",
            "%ff",
            "%00",
            "%2F",
            "a%2Fb",
            "..",
            ".",
            "%252F",
            "x" * 3000,
            "%ED%A0%80",
            "%C3%A9",
            "a b".replace(" ", "%20"),
            "*",
            "urn:a%20b",
            "%22",
            "~",
            "urn%3Ax%3A1",
            "99999999999999999999",
            "%D9%A3",
        ]
        return draw(st.sampled_from(odd) | st.text(min_size=1, max_size=6).map(lambda text: quote(text.encode("utf-8", "surrogatepass"))))  # fmt: skip

    path = re.sub(r"{([^}]+)}", place, template)
    if draw(st.integers(0, 40)) == 0:
        path += draw(st.sampled_from(["/", "//", "/x", "%00", "/../..", ";a=b", "%", "/%2e%2e"]))
    chosen = draw(st.lists(st.sampled_from(params), max_size=4)) if params else []
    if "timerel" in params and draw(st.booleans()):
        chosen += ["timerel", "timeAt", "endTimeAt"]
    if "georel" in params and draw(st.integers(0, 3)) == 0:
        chosen += ["georel", "geometry", "coordinates"]
    if "type" in params and draw(st.booleans()):
        chosen.append("type")
    chosen = list(dict.fromkeys(chosen))
    pairs = []
    for name in chosen:
        known = VALUES.get(name, ["x"])
        how = draw(st.integers(0, 9))
        value = known[0] if how < 5 else draw(st.sampled_from(known)) if how < 9 else draw(st.text(max_size=10))
        pairs.append(f"{name}={quote(value.encode('utf-8', 'surrogatepass'))}")
    if draw(st.integers(0, 30)) == 0:
        pairs.append(
            draw(
                st.sampled_from(
                    [
                        "x=1",
                        "=",
                        "&&&",
                        "limit",
                        "q=%ff",
                        "q=%",
                        "%00=1",
                        "type=%ED%A0%80",
                        "a" * 5000,
                        "q=" + "a" * 20_000,
                        "&" * 400,
                        "id=a&id=b",
                    ]
                )
            )
        )
    return (path + ("?" + "&".join(pairs) if pairs else "")).encode("latin-1", "replace")  # fmt: skip
