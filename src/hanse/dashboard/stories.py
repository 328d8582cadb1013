"""Three short stories that a person clicks through: one node, one community, several communities.

A story has steps; each says what it is about and does something real at the nodes when it is played, and tells what happened.
`cast` finds nodes for the parts, or says what is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from msgspec import Struct

from hanse.client import NgsiLdClientError, NodeClient
from hanse.dashboard.rules import Rule, is_open, sentences, types_named
from hanse.dashboard.steering import API, client_of, topology_of
from hanse.dashboard.topology import Topology, reached, shortest
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.client.stream import Notifications
    from hanse.dashboard.watching import Watch

ARRIVE_S: Final = 10.0
LOOK_S: Final = 0.05
HOT: Final = 31
WARM: Final = 22
_USUAL: Final = ("Vehicle", "Alert", "Room", "Building")  # types to tell a story with, if no rule names one
_SECRET: Final = ("Person", "Driver", "Camera", "Diary")
_START: Final = "start the federation of this file with hanse federation up, and look at it"


class Missing(Exception):
    """Why a story cannot be played here, and what would help."""


class Cast(Struct, frozen=True):
    """Who plays: where things are published, where somebody waits for them, and of which types they are."""

    home: str
    other: str = ""
    open_type: str = "Room"
    kept_type: str = ""
    rule: dict[str, Any] = {}
    way: tuple[str, ...] = ()


class Stage:
    """A story while it is played by one visitor; `close` leaves nothing of it behind."""

    def __init__(self, watch: Watch, cast: Cast) -> None:
        self._watch = watch
        self.cast = cast
        self._name = uuid4().hex[:8]
        self._streams: dict[str, Notifications] = {}
        self._made: list[tuple[str, str]] = []  # node, entity

    def client(self, node: str) -> NodeClient:
        return client_of(self._watch, node)

    def entity(self, type_: str) -> str:
        return f"urn:ngsi-ld:{type_}:story-{self._name}"

    async def create(self, node: str, type_: str, **attributes: Any) -> str:
        id_ = self.entity(type_)
        said = {name: {"type": "Property", "value": value} for name, value in attributes.items()}
        await self.client(node).upsert([{"id": id_, "type": type_, **said}])
        if (node, id_) not in self._made:
            self._made.append((node, id_))
        return id_

    async def subscribe(self, node: str, type_: str, q: str | None = None) -> str:
        """A subscription that lasts as long as the story; gives its id."""
        key = f"{node} {type_}"
        if key not in self._streams:
            stream = self.client(node).subscribe(
                type=type_, q=q, subscriptionName="a story of the dashboard", format="simplified"
            )
            self._streams[key] = stream
            await stream.open()
        return self._streams[key].id

    async def next(self, node: str, type_: str, id_: str) -> dict[str, Any]:
        """The next notification of an entity, as who subscribed gets it."""
        stream = self._streams[f"{node} {type_}"]
        try:
            async with asyncio.timeout(ARRIVE_S):
                while True:
                    notification = await anext(stream)
                    for entity in notification.get("data", ()):
                        if entity.get("id") == id_:
                            return dict(entity)
        except TimeoutError:
            raise InvalidInput(
                f"nothing came in {ARRIVE_S:g} s; look at the map whether the nodes still hear each other"
            ) from None

    async def close(self) -> None:
        for stream in self._streams.values():
            with suppress(NgsiLdClientError, OSError):
                await stream.close()
        self._streams.clear()
        for node, id_ in self._made:
            with suppress(NgsiLdClientError, InvalidInput, OSError):
                await self.client(node).delete(id_)
        self._made.clear()


Play = Callable[[Stage], Awaitable[list[str]]]


class Step(Struct, frozen=True):
    title: str
    says: Callable[[Cast], str]  # what it is about, and what to look at
    button: str
    play: Play  # gives what happened, line by line


class Story(Struct, frozen=True):
    key: str
    title: str
    says: str
    cast: Callable[[Topology], Cast]
    steps: tuple[Step, ...]


def cast_of(story: Story, watch: Watch) -> Cast:
    """Raises Missing."""
    try:
        topology = topology_of(watch)
    except InvalidInput as error:
        raise Missing(str(error)) from None
    there = {id_ for id_, seen in watch.nodes.items() if seen.is_there}
    known = Topology(
        tuple(node for node in topology.nodes if node.id in there),
        tuple(link for link in topology.links if link.pair <= there),
        topology.terms,
    )
    if not known.nodes:
        raise Missing("No node answers. Start one: hanse serve")
    return story.cast(known)


# --- who plays --------------------------------------------------------------------------------------------------------


def _alone(topology: Topology) -> Cast:
    return Cast(topology.nodes[0].id)


def _one_community(topology: Topology) -> Cast:
    """Two nodes of a community, as far apart as may be, that share everything."""
    home = topology.by_id
    pairs = [
        (a.id, b.id, way)
        for a in topology.nodes
        for b in topology.nodes
        if a.id < b.id and a.community == b.community and (way := shortest(topology, a.id, b.id))
        if b.id in reached(topology, a.id, "Room") and all(home[node].community == a.community for node in way)
    ]
    if not pairs:
        raise Missing(f"This needs two linked nodes of one community: {_START}.")
    a, b, way = max(pairs, key=lambda pair: len(pair[2]))
    return Cast(a, b, way=tuple(way))


def _several(topology: Topology) -> Cast:
    """A link between communities whose rule lets one type pass, and keeps another one back for good."""
    home = topology.by_id
    for link in topology.links:
        for here in link.between:
            other, rule = link.other(here), link.rule(here)
            if rule is None or is_open(rule) or home[here].community == home[other].community:
                continue
            passing = next((one for one in _candidates(rule, _USUAL) if other in reached(topology, here, one)), None)
            kept = next((one for one in _candidates(rule, _SECRET) if other not in reached(topology, here, one)), None)
            if passing and kept:
                return Cast(here, other, passing, kept, dict(rule), (here, other))
    raise Missing(f"This needs two linked communities with an export rule between them: {_START}.")


def _candidates(rule: Rule, usual: tuple[str, ...]) -> Iterator[str]:
    named = sorted(types_named(rule))
    yield from (name for name in usual if name in named)
    yield from usual
    yield from named


# --- one community, one node ------------------------------------------------------------------------------------------


async def _create_room(stage: Stage) -> list[str]:
    node = stage.cast.home
    id_ = await stage.create(node, "Room", temperature=WARM - 1)
    kept = await stage.client(node).get(id_, format="simplified")
    return [f"{node} keeps {id_}.", f"Asked for it, it says: temperature {kept['temperature']}."]


async def _wait_for_heat(stage: Stage) -> list[str]:
    id_ = await stage.subscribe(stage.cast.home, "Room", f"temperature>{HOT - 1}")
    return [f"{stage.cast.home} has the subscription {id_}.", f"It is told of rooms with temperature > {HOT - 1}."]


async def _warm_up(stage: Stage) -> list[str]:
    node, id_ = stage.cast.home, stage.entity("Room")
    await stage.create(node, "Room", temperature=WARM)
    await stage.create(node, "Room", temperature=HOT)
    entity = await stage.next(node, "Room", id_)
    return [
        f"It was set to {WARM}, which is nobody's concern, then to {HOT}.",
        f"What came is: {entity['id']} has temperature {entity['temperature']}.",
    ]


async def _look_back(stage: Stage) -> list[str]:
    node, id_ = stage.cast.home, stage.entity("Room")
    history = await stage.client(node).temporal(id_, attrs="temperature", last=10, values=True)
    values = [pair[0] for pair in history["temperature"]["values"]]
    return [f"The node remembers: {', '.join(map(str, sorted(values)))}."]


# --- one community, federated -----------------------------------------------------------------------------------------


async def _wait_elsewhere(stage: Stage) -> list[str]:
    id_ = await stage.subscribe(stage.cast.other, "Room")
    return [f"Somebody at {stage.cast.other} waits for rooms: {id_}.", f"Nobody told {stage.cast.home} by hand: the nodes did."]


async def _create_far_away(stage: Stage) -> list[str]:
    cast = stage.cast
    id_ = await stage.create(cast.home, "Room", temperature=HOT)
    entity = await stage.next(cast.other, "Room", id_)
    return [
        f"{id_} was created at {cast.home}.",
        f"It arrived at {cast.other}, with temperature {entity['temperature']}.",
    ]


async def _ask_elsewhere(stage: Stage) -> list[str]:
    cast, id_ = stage.cast, stage.entity("Room")
    found = [entity async for entity in stage.client(cast.other).query(type="Room", id=id_, format="simplified")]
    local = [entity async for entity in stage.client(cast.other).query(type="Room", id=id_, local=True)]
    if not found:
        raise InvalidInput(f"{cast.other} did not find it; create it first")
    return [
        f"Asked for the room, {cast.other} says: temperature {found[0]['temperature']}.",
        f"It keeps {len(local)} such rooms itself.",
    ]


# --- several communities ----------------------------------------------------------------------------------------------


async def _read_rule(stage: Stage) -> list[str]:
    cast = stage.cast
    return [f"From {cast.home} to {cast.other}:", *sentences(cast.rule)]


async def _wait_for_both(stage: Stage) -> list[str]:
    cast = stage.cast
    for type_ in (cast.open_type, cast.kept_type):
        await stage.subscribe(cast.other, type_)
    return [f"Somebody at {cast.other} waits for {cast.open_type} and for {cast.kept_type}."]


async def _share(stage: Stage) -> list[str]:
    cast = stage.cast
    id_ = await stage.create(cast.home, cast.open_type, name="for all to see")
    entity = await stage.next(cast.other, cast.open_type, id_)
    return [f"{id_} was created at {cast.home}.", f"It arrived at {cast.other}: {entity.get('name')}."]


async def _keep_back(stage: Stage) -> list[str]:
    cast = stage.cast
    subscription = await stage.subscribe(cast.other, cast.kept_type)
    id_ = await stage.create(cast.home, cast.kept_type, name="for nobody else")
    why = await _why_not(stage, id_, subscription)
    at_home = await stage.client(cast.home).count(type=cast.kept_type, id=id_)
    there = await stage.client(cast.other).count(type=cast.kept_type, id=id_)
    return [
        f"{id_} was created at {cast.home}. It did not arrive at {cast.other}:",
        *why,
        f"Asked for it, {cast.home} finds {at_home}, and {cast.other} finds {there}.",
    ]


async def _why_not(stage: Stage, entity: str, subscription: str) -> list[str]:
    """What stopped it, in the words of the node that it did not come to."""
    cast = stage.cast
    end = time.monotonic() + ARRIVE_S
    while True:
        recent = (await stage.client(cast.home).request("GET", f"{API}/traces", params={"limit": 200})).data
        found = next((trace for trace in recent if trace["entity"] == entity), None)
        if found is not None:
            break
        if time.monotonic() > end:
            raise InvalidInput(f"{cast.home} has no trace of {entity}")
        await asyncio.sleep(LOOK_S)
    named = {"publisher": found["publisher"], "id": found["id"]}
    trace = (await stage.client(cast.home).request("GET", f"{API}/trace", params=named)).data
    asked = {"notification": trace["notification"], "subscription": subscription, "home": cast.home}
    said = (await stage.client(cast.other).request("POST", f"{API}/explain", json=asked)).data
    if said["delivered"] or said["matched"]:
        raise InvalidInput("it was let through; somebody has changed the rules meanwhile")
    return [str(check["words"]) for check in said["checks"] if not check["passed"]]


async def _tidy(stage: Stage) -> list[str]:
    await stage.close()
    return ["What the story made is gone again: entities and subscriptions."]


_LAST: Final = Step("Tidy up", lambda _: "A story leaves nothing behind.", "Clean the stage", _tidy)

STORIES: Final = (
    Story(
        "one",
        "One community, one node",
        "A room gets warm, and somebody is told. No federation is needed.",
        _alone,
        (
            Step(
                "A room",
                lambda cast: f"The node {cast.home} keeps things as NGSI-LD entities. This creates one.",
                "Create a room",
                _create_room,
            ),
            Step(
                "Somebody waits",
                lambda _: "A subscription says what is wanted, and under which condition.",
                "Subscribe",
                _wait_for_heat,
            ),
            Step(
                "It gets warm",
                lambda _: "Only what the subscription asks for is told. Watch what comes.",
                "Heat the room",
                _warm_up,
            ),
            Step(
                "Looking back", lambda _: "The node keeps how a value came to be what it is.", "Ask for its history", _look_back
            ),
            _LAST,
        ),
    ),
    Story(
        "community",
        "One community, federated",
        "Several nodes of one owner share everything: ask anywhere, hear anywhere.",
        _one_community,
        (
            Step(
                "Somebody waits elsewhere",
                lambda cast: f"{cast.home} and {cast.other} belong to one community, linked by {' – '.join(cast.way)}.",
                "Subscribe there",
                _wait_elsewhere,
            ),
            Step(
                "Something happens here",
                lambda cast: f"A room is created at {cast.home}. Open the map in another window, and see it travel.",
                "Create a room here",
                _create_far_away,
            ),
            Step("Ask there", lambda cast: f"{cast.other} keeps no copy: it asks who has it.", "Query there", _ask_elsewhere),
            _LAST,
        ),
    ),
    Story(
        "communities",
        "Several communities",
        "Owners who share some things, and keep others: export rules hold something back.",
        _several,
        (
            Step(
                "The rule", lambda cast: f"{cast.home} and {cast.other} belong to different owners.", "Read the rule", _read_rule
            ),
            Step(
                "Somebody is curious",
                lambda cast: f"At {cast.other} somebody wants to hear of {cast.open_type} and {cast.kept_type}.",
                "Subscribe there",
                _wait_for_both,
            ),
            Step("What may be shared", lambda cast: f"A {cast.open_type} may go to {cast.other}.", "Create it", _share),
            Step(
                "What is kept back",
                lambda cast: f"A {cast.kept_type} may not. See which check stops it.",
                "Create it",
                _keep_back,
            ),
            _LAST,
        ),
    ),
)
