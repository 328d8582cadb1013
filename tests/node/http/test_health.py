"""Whether a node lives, whether it can work, and how full it is."""

from __future__ import annotations

import re
from collections import Counter

from tests.serving import serving

import hanse
from hanse.node.metrics import Bound, Metrics, Total
from hanse.routing.recent import room
from hanse.routing.settings import DELIVERED_KEPT, TOMBSTONES_KEPT


def test_a_node_says_how_it_is() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        assert node.request("GET", "/healthz").data["status"] == "up"
        assert node.request("GET", "/readyz").data == {"status": "ready", "reasons": []}
        bounds = {bound["name"]: bound for bound in node.request("GET", "/hanse/v1/bounds").data}
        assert bounds["pending_writes"] == {"tenant": "", "name": "pending_writes", "used": 0, "max": 20_000}
        assert bounds["tenants"]["used"] == 1
        node.create({"id": "urn:ngsi-ld:Room:1", "type": "Room"})
        text = node.request("GET", "/metrics", headers={"Accept": "text/plain"}).data.decode()
        assert re.search(r'^hanse_log_offset_total\{tenant=""\} 1\.0$', text, re.MULTILINE)
        assert re.search(r'^hanse_bound_max\{bound="tenants",tenant=""\} 100\.0$', text, re.MULTILINE)
        assert "process_resident_memory_bytes" in text


def test_counting() -> None:
    metrics = Metrics()
    for seconds in (0.0004, 0.003, 100.0):
        metrics.request("GET", 200, seconds)
    metrics.request("STRANGE", 405, 0.1)
    metrics.count("native_requests", "Publish", 3)
    text = metrics.text([Bound("t", "b", 2, None)], [Total("t", "notifications_sent", 7)]).decode()
    for line in (
        'hanse_requests_total{method="GET",status="200"} 3.0',
        'hanse_requests_total{method="other",status="405"} 1.0',
        'hanse_request_seconds_bucket{le="0.0005"} 1.0',
        'hanse_request_seconds_bucket{le="0.005"} 2.0',
        'hanse_request_seconds_bucket{le="10.0"} 3.0',
        'hanse_request_seconds_bucket{le="+Inf"} 4.0',
        "hanse_request_seconds_count 4.0",
        'hanse_native_requests_total{kind="Publish"} 3.0',
        'hanse_notifications_sent_total{tenant="t"} 7.0',
        'hanse_bound_used{bound="b",tenant="t"} 2.0',
    ):
        assert line in text.splitlines()


def test_nothing_is_told_twice() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        node.request("PUT", "/hanse/v1/clients/crew", json={})
        text = node.request("GET", "/metrics", headers={"Accept": "text/plain"}).data.decode()
        told = Counter(line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#"))
        families = Counter(" ".join(line.split()[:3]) for line in text.splitlines() if line.startswith("#"))
        bounds = Counter((bound["tenant"], bound["name"]) for bound in node.request("GET", "/hanse/v1/bounds").data)
    assert told['hanse_bound_used{bound="native_clients",tenant=""}'] == 1
    assert families["# HELP hanse_bound_used"] == families["# TYPE hanse_bound_used"] == 1
    assert [one for counted in (told, families, bounds) for one, number in counted.items() if number > 1] == []


def test_a_bound_of_what_a_broker_remembers_is_the_most_that_it_ever_is() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        bounds = {bound["name"]: bound["max"] for bound in node.request("GET", "/hanse/v1/bounds").data}
    assert bounds["broker_delivered_kept"] == room(DELIVERED_KEPT)
    assert bounds["broker_tombstones"] == room(TOMBSTONES_KEPT)
