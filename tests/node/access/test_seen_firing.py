"""A subscription fires exactly when it would, if there were nothing but what its owner sees."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.node.access.test_seen_meaning import COARSENED, HIDING, ROUNDED, SAMPLED, with_policies

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import Change, Entity, now_text
from hanse.ngsild.parsing import parse_entity
from hanse.ngsild.subscription_members import STREAM_URI
from hanse.ngsild.subscriptions import fires, parse_subscription
from hanse.node.notifier.streams import Listener
from hanse.policies import Principal

NEAR = {"georel": "near;maxDistance==900", "geometry": "Point", "coordinates": [2.35, 48.85]}
wanted = st.builds(
    lambda type_, q, geo, watched: {
        "entities": [{"type": type_}],
        **({"q": q} if q else {}),
        **({"geoQ": NEAR} if geo else {}),
        **({"watchedAttributes": watched} if watched else {}),
    },
    st.sampled_from(["Room", "Car"]),
    st.sampled_from(["", "a>10", "!a", "a==20|b<10", "!b;a", "a==17", "a==20", "b>=20"]),
    st.booleans(),
    st.sampled_from([[], ["a"], ["b", "location"]]),
)
states = st.builds(
    lambda number, type_, a, b, place: {
        "id": f"urn:{number}",
        "type": type_,
        **({} if a is None else {"a": {"type": "Property", "value": a}}),
        **({} if b is None else {"b": {"type": "Property", "value": b}}),
        **({} if place is None else {"location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": place}}}),
    },
    st.integers(0, 2),
    st.sampled_from(["Room", "Car"]),
    st.sampled_from([None, 3, 17, 23, 24]),
    st.sampled_from([None, 3, 17]),
    st.sampled_from([None, [2.35, 48.85], [2.353, 48.853], [2.5, 48.9]]),
)


async def told(folder: Path, policies: str, asked: list[dict[str, Any]], written: list[dict[str, Any]]) -> None:
    reading = policies.replace("(principal, action, resource)", '(principal, action == Action::"read", resource)')
    tenant = with_policies(folder, reading + '\npermit (principal, action == Action::"subscribe", resource);')
    await tenant.start()
    try:
        assert tenant.access is not None
        seen = tenant.access.seen(tenant, Principal("someone"))
        subscriptions = []
        listener = Listener(is_for_several=True)
        for number, body in enumerate(asked):
            said = {"id": f"urn:s:{number}", "type": "Subscription", "notification": {"endpoint": {"uri": STREAM_URI}}} | body
            subscription = parse_subscription(said, CORE, now_text())
            await seen.subscriptions.add(subscription, is_kept=False)
            tenant.notifier.streams.listen(subscription.id, listener)
            subscriptions.append(subscription)
        for state in written:

            def upserted(old: Entity | None, state: dict[str, Any] = state) -> Change | None:
                entity = parse_entity(state, CORE, now_text())
                if old is None:
                    return operations.create(entity, now_text())
                replaced = operations.replace(old, entity, now_text())
                return replaced.change if hasattr(replaced, "change") else replaced

            applied = tenant.apply(state["id"], upserted, "test")
            if applied.committed is None or applied.change is None:
                continue
            await applied.committed
            view = seen.sight.change(applied.change)
            expected = {one.id for one in subscriptions if view is not None and fires(one, view, 1)}
            await asyncio.sleep(0)
            heard = {}
            while listener._events:
                event = listener._events.popleft()
                heard[event.subscription] = json.loads(event.body)["data"]
            assert set(heard) == expected
            for data in heard.values():
                assert view is not None
                assert {name for name in data[0] if name in ("a", "b", "location")} <= {
                    CORE.compact_iri(name) for name in view.entity.attributes
                }
    finally:
        await tenant.stop()


def _room(location: list[float] | None = None, **values: int) -> dict[str, Any]:
    body: dict[str, Any] = {"id": "urn:0", "type": "Room"}
    body |= {name: {"type": "Property", "value": value} for name, value in values.items()}
    if location is not None:
        body["location"] = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": location}}
    return body


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(policies=SAMPLED, asked=st.lists(wanted, min_size=3, max_size=6), written=st.lists(states, min_size=4, max_size=8))
@example(
    policies=ROUNDED,
    asked=[{"entities": [{"type": "Room"}], "q": q} for q in ("a==20", "!b;a==20", "a==17")],
    written=[_room(a=3), _room(a=17), _room(a=18), _room(a=24)],
)
@example(
    policies=COARSENED,
    asked=[{"entities": [{"type": "Room"}], "geoQ": NEAR}],
    written=[_room(location=[lon, 48.85]) for lon in (2.34, 2.35, 2.358, 2.3615, 2.365, 2.37)],
)
@example(
    policies=HIDING,
    asked=[{"entities": [{"type": "Room"}], "q": q} for q in ("!a", "a>10", "b;!a")],
    written=[_room(a=17, b=3), _room(a=18, b=3), _room(a=18, b=17)],
)
def test_what_is_told_is_what_would_be_told_of_what_is_seen(
    tmp_path: Path, policies: str, asked: list[dict[str, Any]], written: list[dict[str, Any]]
) -> None:
    asyncio.run(told(tmp_path, policies, asked, written))
