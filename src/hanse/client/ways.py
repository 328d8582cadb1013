"""The way of one notification through a federation, put together from what its nodes tell, and why a subscription got it or not.

Each node knows only what it did itself. `way_of` asks all of them; `explained` asks the subscriber's node for its checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from hanse.client.errors import NgsiLdClientError
from hanse.client.federation_words import Value, ordered, rule_words

if TYPE_CHECKING:
    from hanse.client.node import NodeClient

API: Final = "/hanse/v1/federation"


class ClosedLink(NamedTuple):
    """Where it could have gone further, if an export rule let it."""

    here: str
    other: str
    rule: Value

    @property
    def words(self) -> str:
        return f"{self.here} does not let it go to {self.other}: its export rule there is: {rule_words(self.rule)}"


class Way(Struct, frozen=True):
    """What all nodes together tell of a notification."""

    notification: Value
    home: str  # the node that it was published at
    steps: list[Value]  # in order
    closed: list[ClosedLink]
    silent: dict[str, str]  # nodes of which nothing is known, and why


async def way_of(clients: Mapping[str, NodeClient | None], publisher: str, id_: str) -> Way | None:
    """Of all nodes by id (None: no address is known); itself None if nobody knows the notification."""
    traces, silent = await _traces(clients, publisher, id_)
    told = next((one for one in traces if any(step["did"] == "published" for step in one["steps"])), None)
    known = told or next((one for one in traces if one["notification"]), None)
    if known is None or known["notification"] is None:
        return None
    home = known["node"] if told is not None else next((one["home"] for one in traces if one["home"]), "")
    return Way(known["notification"], home, ordered(traces), await _closed(clients, known, home), silent)


async def _traces(clients: Mapping[str, NodeClient | None], publisher: str, id_: str) -> tuple[list[Value], dict[str, str]]:
    silent: dict[str, str] = {}

    async def ask(node: str, client: NodeClient | None) -> Value | None:
        if client is None:
            silent[node] = "it does not say where it answers"
            return None
        try:
            found = await client.request("GET", f"{API}/trace", params={"publisher": publisher, "id": id_})
        except NgsiLdClientError as error:
            silent[node] = str(error) if error.status else "it does not answer"
            return None
        return dict(found.data)

    found = await asyncio.gather(*(ask(node, client) for node, client in clients.items()))
    return [one for one in found if one is not None], {node: silent[node] for node in clients if node in silent}


async def _closed(clients: Mapping[str, NodeClient | None], known: Value, home: str) -> list[ClosedLink]:
    client = clients.get(known["node"])
    assert client is not None  # it has just answered
    topology = (await client.request("GET", f"{API}/topology")).data
    return closed_links(topology, known["notification"], home)


def closed_links(federation: Value, notification: Value, home: str) -> list[ClosedLink]:
    """The links that export rules close for it, where it could have gone further."""
    import msgspec

    from hanse.model import Notification
    from hanse.ngsild.entity import DEFAULT_VOCAB
    from hanse.routing import ExportRule, Federation, Link, Node

    known = {node["id"] for node in federation["nodes"]}
    if home not in known:
        return []
    rules = {
        (here, other): rule
        for link in federation["links"]
        if link["export"] is not None and link["back"] is not None and set(link["between"]) <= known
        for here, other, rule in ((*link["between"], link["export"]), (*reversed(link["between"]), link["back"]))
    }
    links = tuple(Link(here, other, msgspec.convert(rule, ExportRule)) for (here, other), rule in rules.items())
    # a node tells its rules with short names
    types = [name.removeprefix(DEFAULT_VOCAB) for name in notification.get("types", ())]
    said = msgspec.convert(notification | {"types": types}, Notification)
    reached = Federation(tuple(map(Node, sorted(known))), links).audience(home, said)
    return [ClosedLink(*ends, rule) for ends, rule in rules.items() if ends[0] in reached and ends[1] not in reached]


async def explained(clients: Mapping[str, NodeClient | None], there: NodeClient, way: Way, subscription: str) -> Value:
    """By the subscriber's node, which is told no more of a notification than the policies of its publisher's node allow.

    The answer of /federation/explain: `delivered` says what holds now, `matched` what happened then, `checks` why.
    """
    reader = str((await there.request("GET", API)).data["node"])
    notification, policy = way.notification, list[Value]()
    known = await _as_seen_by(clients, way, reader)
    kept_back = next((step for step in known["steps"] if step["did"] in ("withheld", "reduced")), None) if known else None
    if known is not None and kept_back is not None:
        is_shown = known["notification"] is not None
        part = "only a part of it" if is_shown else "nothing of it"
        policy = [{"name": "policy", "passed": is_shown, "words": f"{way.home} lets {reader} see {part}: {kept_back['how']}."}]
        if not is_shown:
            told = {"node": reader, "home": way.home, "subscription": subscription, "path": [], "checks": policy}
            return {**told, "delivered": False, "matched": False}
        notification = known["notification"]
    asked = {"notification": notification, "subscription": subscription, "home": way.home}
    why: Value = (await there.request("POST", f"{API}/explain", json=asked)).data
    return why | {"checks": why["checks"] + policy}


async def _as_seen_by(clients: Mapping[str, NodeClient | None], way: Way, reader: str) -> dict[str, Any] | None:
    """What the publisher's node lets another one know, with its steps for that one; None if there is nothing to ask."""
    home = clients.get(way.home)
    if home is None or way.home == reader:
        return None
    params = {"publisher": way.notification["publisher"], "id": way.notification["id"], "reader": reader}
    try:
        known = dict((await home.request("GET", f"{API}/trace", params=params)).data)
    except NgsiLdClientError as error:
        if error.status:
            raise
        return None
    return known | {"steps": [step for step in known["steps"] if step.get("other") == reader]}


def why_words(why: Value) -> list[str]:
    """The checks once more, as things are now; what happened then the steps have told."""
    said = [f"subscription {why['subscription']} at {why['node']}: {'delivered' if why['delivered'] else 'not delivered'}"]
    said += [f"  {'yes' if check['passed'] else 'NO '}  {check['name']}: {check['words']}" for check in why["checks"]]
    if why["delivered"] != why["matched"]:
        said.append(f"  that is so now; {'it was matched then' if why['matched'] else 'it was not matched then'}")
    return said
