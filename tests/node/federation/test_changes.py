"""A change travels as a notification, and is the same change again at the other end."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.telling import notification_of

from hanse.model import Notification
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import Change
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.subscriptions import fires, parse_subscription
from hanse.node.federation.changes import change_of
from hanse.routing import ExportRule

NAMES = ("a", "b", "c")
T1, T2 = "2026-11-15T10:00:00.000000Z", "2026-11-15T10:00:01.000000Z"
values = st.one_of(st.integers(-5, 5), st.sampled_from(["x", "y", "naïve"]), st.booleans())
instances = st.builds(
    lambda value, dataset: {"type": "Property", "value": value} | dataset, values, st.sampled_from([{}, {"datasetId": "urn:d:1"}])
)
bodies: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.sampled_from(NAMES), instances, max_size=3)
scopes: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {"scope": "/x"}, {"scope": ["/x/y", "/z"]}])


def entity(body: dict[str, Any], scope: dict[str, Any]) -> Any:
    return parse_entity({"id": "urn:e:1", "type": "Room"} | body | scope, CORE, T1)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    old = entity(draw(bodies), draw(scopes))
    kind = draw(st.sampled_from(["create", "delete", "append", "replace", "purge"]))
    if kind == "create":
        return operations.create(old, T1)
    if kind == "delete":
        return operations.delete(old, T2)
    if kind == "replace":
        new = parse_entity({"id": "urn:e:1", "type": ["Room", "Hall"]} | draw(bodies) | draw(scopes), CORE, T2)
        return operations.replace(old, new, T2)
    if kind == "purge":
        change: Any = operations.purge(old, T2, keep=None, drop={CORE.expand_term("a")})
    else:
        change = operations.append(old, parse_fragment(draw(bodies) | draw(scopes), CORE, T2), T2)
    found: Change | None = getattr(change, "change", change)
    return found if found is not None else operations.create(old, T1)


def travelled(change: Change) -> Change:
    sent = notification_of(change, publisher="urn:hanse:node:a")
    came = change_of(msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Notification))
    assert came is not None
    return came


@given(changes())
def test_a_change_is_the_same_at_the_other_end(change: Change) -> None:
    came = travelled(change)
    assert (came.kind, came.at, came.entity) == (change.kind, change.at, change.entity)
    if change.kind == "updated":
        assert sorted(map(repr, came.attributes)) == sorted(map(repr, change.attributes))


SUBSCRIPTIONS = [
    {"entities": [{"type": "Room"}]},
    {"entities": [{"type": "Hall"}], "notificationTrigger": ["entityUpdated"]},
    {"entities": [{"type": "Room"}], "watchedAttributes": ["a"]},
    {"entities": [{"type": "Room"}], "q": 'a==3|b=="x"'},
    {"entities": [{"type": "Room"}], "scopeQ": "/x/#"},
    {"entities": [{"type": "Room"}], "notificationTrigger": ["entityDeleted", "attributeDeleted"]},
    {"entities": [{"type": "Room"}], "notificationTrigger": ["attributeCreated"], "watchedAttributes": ["b"]},
]


@given(changes(), st.sampled_from(SUBSCRIPTIONS))
def test_it_fires_the_same_subscriptions_there(change: Change, body: dict[str, Any]) -> None:
    asked = {"type": "Subscription", "notification": {"endpoint": {"uri": "http://127.0.0.1/"}}} | body
    subscription = parse_subscription(asked, CORE, T1, new_id="urn:s:1")
    assert fires(subscription, travelled(change), 0) == fires(subscription, change, 0)


@given(changes())
def test_what_a_rule_takes_out_is_not_in_the_change_either(change: Change) -> None:
    hidden = CORE.expand_term("a")
    rule = ExportRule(deny_attributes=(hidden,))
    sent = rule.stripped(notification_of(change, publisher="urn:hanse:node:a"))
    came = change_of(sent)
    if came is not None:
        assert hidden not in came.entity.attributes
        assert all(attribute.name != hidden for attribute in came.attributes)
        assert came.kind == change.kind


def test_what_is_no_change_is_none() -> None:
    assert change_of(Notification(id="1", publisher="p", topic="t", payload="{}")) is None
    assert change_of(Notification(id="1", publisher="p", types=("T",), entity="urn:e:1", payload="[1]")) is None
    assert change_of(Notification(id="1", publisher="p", types=("T",), entity="urn:e:1", payload='{"@": {}}')) is None
    assert change_of(Notification(id="1", publisher="p", types=("T",), entity="urn:e:1", attributes={"x": 3})) is None
