"""Why a notification came or did not: which there were, who may have wanted them, the verdict, and what to draw. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hanse.dashboard.map import COLORS

if TYPE_CHECKING:
    from hanse.client.ways import Way

NEWS_MAX: Final = 2_000  # notifications that are remembered for one visitor
NAME_MAX: Final = 80
ENDED: Final = ("stopped", "dropped", "withheld")
_WAY_COLOR: Final = COLORS[0]
_MADE_COLOR: Final = COLORS[2]

Key = tuple[str, str]  # publisher and id
Place = tuple[float, float]  # longitude and latitude


# --- which notifications there were -----------------------------------------------------------------------------------


class Heard(NamedTuple):
    """A notification as all nodes together tell of it."""

    publisher: str
    id: str
    types: tuple[str, ...]
    about: str  # the entity, or the topic
    at_ms: int
    steps: frozenset[tuple[str, str, str]]  # node, what it did, other

    @property
    def key(self) -> Key:
        return self.publisher, self.id

    @property
    def outcome(self) -> str:
        """What became of it, in a few words."""
        reached = {(node, other) for node, did, other in self.steps if did == "delivered"}
        ended = sorted({did for _, did, _ in self.steps} & set(ENDED))
        said = [f"delivered to {len(reached)}" if reached else "delivered to nobody"]
        return ", ".join(said + [{"withheld": "kept back by a policy"}.get(did, did) for did in ended])

    @property
    def time(self) -> str:
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).strftime("%H:%M:%S")


def merged(known: Mapping[Key, Heard], node: str, traces: Iterable[Mapping[str, Any]]) -> dict[Key, Heard]:
    """What was known, and what a node tells (/federation/traces); the newest of them."""
    found = dict(known)
    for trace in traces:
        key = str(trace["publisher"]), str(trace["id"])
        steps = frozenset((node, str(step["did"]), str(step.get("other", ""))) for step in trace["steps"])
        before = found.get(key)
        at_ms = min(int(trace["at_ms"]), before.at_ms) if before else int(trace["at_ms"])
        about = str(trace["entity"] or trace["topic"] or "")
        found[key] = Heard(*key, tuple(trace["types"]), about, at_ms, steps | before.steps if before else steps)
    if len(found) <= NEWS_MAX:
        return found
    newest = sorted(found.values(), key=lambda one: one.at_ms)[-NEWS_MAX:]
    return {one.key: one for one in newest}


def newest(known: Iterable[Heard], type_: str = "", about: str = "") -> list[Heard]:
    """The newest first; of a type, and about something, if that is asked for."""
    fitting = [one for one in known if (not type_ or type_ in one.types) and about.lower() in one.about.lower()]
    return sorted(fitting, key=lambda one: (-one.at_ms, one.id))


# --- who may have wanted it -------------------------------------------------------------------------------------------


class Subscriber(NamedTuple):
    """A subscription of a client of some node."""

    node: str
    id: str  # as the node's /federation/explain wants it
    words: str

    @property
    def key(self) -> str:
        return f"{self.node} {self.id}"


def of_ngsi_ld(node: str, subscription: Mapping[str, Any]) -> Subscriber:
    id_ = str(subscription["id"])
    types = ", ".join(str(one.get("type", "*")) for one in subscription.get("entities", ())) or "any entity"
    name = subscription.get("subscriptionName") or subscription.get("description") or f"{types}{_condition(subscription)}"
    return Subscriber(node, id_, f"{node}: {str(name)[:NAME_MAX]} ({id_[-8:]})")


def of_native(node: str, client: str, id_: str, subscription: Mapping[str, Any]) -> Subscriber:
    named = [str(one.get("type") or one.get("topic") or one.get("id") or "*") for one in subscription.get("selectors") or ()]
    about = ", ".join(named)[:NAME_MAX] or "everything"
    return Subscriber(node, f"{client}/{id_}", f"{node}: {client}, {id_}: {about}{_condition(subscription)}")


def _condition(subscription: Mapping[str, Any]) -> str:
    return f" where {str(subscription['q'])[:NAME_MAX]}" if subscription.get("q") else ""


def got_it(way: Way, subscriber: Subscriber) -> bool:
    """Whether a step says that it was for this subscription."""
    client, _, own = subscriber.id.rpartition("/")
    return any(
        step["did"] == "delivered"
        and step["node"] == subscriber.node
        and step.get("how") in (subscriber.id, own)
        and (not client or step.get("other") in (client, f"{client}@{subscriber.node}"))
        for step in way.steps
    )


# --- the verdict ------------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    delivered: bool  # then, which is what is asked
    words: str


def verdict(why: Mapping[str, Any]) -> Verdict:
    """What happened then, and the first check that stops it now."""
    failed = [check for check in why["checks"] if not check["passed"]]
    where = f"the subscription at {why['node']}"
    if why["matched"] and not failed:
        return Verdict(delivered=True, words=f"Delivered: {where} got it, since every check passes.")
    if why["matched"]:
        now = f"As things are now it would not: {failed[0]['name']}: {failed[0]['words']}"
        return Verdict(delivered=True, words=f"Delivered: {where} got it then. {now}")
    if failed:
        more = f" (and {len(failed) - 1} more, below)" if len(failed) > 1 else ""
        return Verdict(delivered=False, words=f"Not delivered. {failed[0]['name']}: {failed[0]['words']}{more}")
    return Verdict(
        delivered=False,
        words=f"Not delivered then, though {where} would get it now: it, or a rule, is newer than the notification.",
    )


# --- on the map -------------------------------------------------------------------------------------------------------


def drawn(
    way: Way, why: Mapping[str, Any] | None, places: Mapping[str, Place], links: Iterable[Sequence[str]]
) -> tuple[dict[str, Any], set[str]]:
    """`paths` and `crosses` for the map, and the nodes that had to do with it."""
    sent = [(step["node"], step["other"]) for step in way.steps if step["did"] == "sent" and step.get("other")]
    involved = {way.home} | {step["node"] for step in way.steps} | {other for _, other in sent}
    paths = [_path(ends, places, _WAY_COLOR, thin=True) for ends in dict.fromkeys(sent)]
    crosses: list[Place] = []
    if why is not None:
        line, beyond = _line(way, why, involved, links)
        involved |= {*line, str(why["node"])}
        points = [places[node] for node in line if node in places]
        if not verdict(why).delivered:
            crosses = [_between(line[-1], beyond, places)] if {line[-1], beyond} <= places.keys() else points[-1:]
            points += crosses
        if len(points) > 1:
            paths.append({"points": points, "color": _MADE_COLOR, "thin": False})
    else:
        crosses = [_between(link.here, link.other, places) for link in way.closed if {link.here, link.other} <= places.keys()]
    return {"paths": [path for path in paths if path["points"]], "crosses": crosses}, involved


def _path(ends: Sequence[str], places: Mapping[str, Place], color: str, *, thin: bool) -> dict[str, Any]:
    points = [places[node] for node in ends if node in places]
    return {"points": points if len(points) > 1 else [], "color": color, "thin": thin}


def _line(way: Way, why: Mapping[str, Any], involved: set[str], links: Iterable[Sequence[str]]) -> tuple[list[str], str]:
    """The nodes toward the subscriber, as far as it came; and the one beyond, if the link to it did not let it pass."""
    reader = str(why["node"])
    if verdict(why).delivered:
        return list(why["path"]) or shortest(way.home, reader, links), ""
    line = shortest(way.home, reader, links)
    closed = {(link.here, link.other) for link in way.closed}
    for number, ends in enumerate(pairwise(line), 1):
        if ends in closed:
            return line[:number], ends[1]
    if reader in involved:
        return line, ""
    count = next((number for number, node in enumerate(line) if node not in involved), len(line))
    return line[: max(1, count)], ""


def _between(here: str, other: str, places: Mapping[str, Place]) -> Place:
    (a, b), (c, d) = places[here], places[other]
    return (a + c) / 2, (b + d) / 2


def shortest(start: str, end: str, links: Iterable[Sequence[str]]) -> list[str]:
    """The nodes from one to another along links; the start alone if there is no way."""
    near: dict[str, list[str]] = {}
    for a, b in links:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    came: dict[str, str] = {start: ""}
    waiting = deque([start])
    while waiting and end not in came:
        here = waiting.popleft()
        for other in sorted(near.get(here, ())):
            if other not in came:
                came[other] = here
                waiting.append(other)
    if end not in came:
        return [start]
    line = [end]
    while came[line[-1]]:
        line.append(came[line[-1]])
    return line[::-1]
