"""What one change costs when there are many subscriptions, of which ten match, by what the others differ in.

    .venv/bin/python benchmarks/bench_subscriptions.py [--most 10000] [--shape q]

A change is matched by the broker, checked by `fires`, and ten letters are written: all that happens on the event loop's thread
before the store gets it. The aim: with 10,000 subscriptions at most twice what it costs with the ten alone.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from typing import Any

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import Change, now_text
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.subscriptions import parse_subscription
from hanse.node.settings import NodeSettings
from hanse.node.store import Store
from hanse.node.tenant import Tenant

MATCHING = 10
AIM = 2.0
ID, TYPE = "urn:ngsi-ld:Ship:1", "Ship"
HERE = (9.9, 53.5)


def _near(lon: float, lat: float) -> dict[str, Any]:
    return {"georel": "near;maxDistance==1000", "geometry": "Point", "coordinates": [lon, lat]}


def _within(west: float, south: float) -> dict[str, Any]:
    east, north = west + 0.02, south + 0.02
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"georel": "within", "geometry": "Polygon", "coordinates": [ring]}


def _elsewhere(n: int) -> tuple[float, float]:
    return -170 + n % 170 + 0.003 * (n // 170), -60 + n % 101


# what the n-th of those that do not match, or that do, asks for
SHAPES: dict[str, Callable[[int, bool], dict[str, Any]]] = {
    "q (thresholds)": lambda n, does: {"q": f"level>{n % 20}" if does else f"level>{100 + n}"},
    "q (equalities)": lambda n, does: {"q": "level==30" if does else f"level=={100 + n}"},
    "q (patterns)": lambda n, does: {"q": f'level==30;name~="^R.{{{n % 5}}}"' if does else f'level=={100 + n};name~="^R"'},
    "types": lambda n, does: {} if does else {"entities": [{"type": f"Other{n}"}]},
    "watched attributes": lambda n, does: {"watchedAttributes": ["level"] if does else [f"other{n % 20}"]},
    "triggers": lambda _, does: {"notificationTrigger": ["attributeUpdated" if does else "entityDeleted"]},
    "geofences (circles)": lambda n, does: {"geoQ": _near(*(HERE if does else _elsewhere(n)))},
    "geofences (polygons)": lambda n, does: {
        "geoQ": _within(HERE[0] - 0.01, HERE[1] - 0.01) if does else _within(*_elsewhere(n))
    },
    "scopes": lambda n, does: {"scopeQ": "/Hamburg/#" if does else f"/Elsewhere/{n}/#"},
    "ids": lambda n, does: {"entities": [{"type": TYPE, "id": ID if does else f"urn:ngsi-ld:Ship:{n + 2}"}]},
}


def _change() -> Change:
    now = now_text()
    location = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": list(HERE)}}
    others = {f"other{n}": n for n in range(20)}
    entity = parse_entity(
        {"id": ID, "type": TYPE, "level": 1, "name": "Rickmer", "location": location, "scope": "/Hamburg/Port"} | others,
        CORE,
        now,
    )
    outcome = operations.update(entity, parse_fragment({"level": {"type": "Property", "value": 30}}, CORE, now), now)
    assert outcome.change is not None
    return outcome.change


async def _subscribe(tenant: Tenant, n: int, members: dict[str, Any]) -> None:
    notification = {"endpoint": {"uri": "http://127.0.0.1:1/n"}, "format": "keyValues"}
    body = {"id": f"urn:s:{n}", "type": "Subscription", "entities": [{"type": TYPE}], "notification": notification}
    await tenant.subscriptions.add(parse_subscription(body | members, CORE, now_text()), is_kept=False)


def _microseconds(tenant: Tenant, changes: list[Change], seconds: float = 0.4) -> float:
    """CPU time, the best of several rounds, because the machine has other things to do."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.process_time()
        for change in changes:
            found = tenant.subscriptions.fired(change, *tenant._routed(change)).deliveries  # noqa: SLF001
        times.append((time.process_time() - start) / len(changes) * 1e6)
        assert len(found) == MATCHING, len(found)
    return min(times)


async def _shape(name: str, counts: list[int]) -> bool:
    members = SHAPES[name]
    changes = [_change() for _ in range(10)]  # of different entities, so that nothing made for one serves the next
    costs: list[float] = []
    tenant = Tenant("", Store.open(None), NodeSettings())
    await tenant.start()
    try:
        number = 0
        for count in counts:
            while number < count:
                await _subscribe(tenant, number, members(number, number < MATCHING))
                number += 1
            costs.append(_microseconds(tenant, changes))
    finally:
        await tenant.stop()
    ratios = [cost / costs[0] for cost in costs]
    cells = "".join(f"{cost:10.0f} ({ratio:5.2f}x)" for cost, ratio in zip(costs, ratios, strict=True))
    print(f"{name:24}{cells}{'' if max(ratios) <= AIM else '   more than twice'}", flush=True)
    return max(ratios) <= AIM


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--most", type=int, default=10_000, help="subscriptions at most")
    parser.add_argument("--shape", default="", help="only shapes whose names begin so")
    options = parser.parse_args()
    counts = [count for count in (10, 1_000, 10_000, 100_000) if count <= options.most]
    print(f"{'microseconds a change':24}" + "".join(f"{count:10,} {'':8}" for count in counts))
    reached = [await _shape(name, counts) for name in SHAPES if name.startswith(options.shape)]
    print(f"{sum(reached)} of {len(reached)} shapes cost at most {AIM:g} times what ten subscriptions cost")


if __name__ == "__main__":
    asyncio.run(_main())
