"""A federation's nodes and links as a value that can be read, written, compared, and asked what a change would mean.

Nothing here talks to a node. `concerns` says before a link is made what it would bring: a ring, a way round a rule, a link that
carries nothing; `difference` says what has to be done to come from one topology to another.
"""

from __future__ import annotations

import tomllib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.dashboard import toml_text
from hanse.dashboard.rules import Rule, checked, is_open, short, types_named
from hanse.model import InvalidInput
from hanse.routing import ExportRule

FILE_BYTES_MAX: Final = 1 << 20
NODES_MAX: Final = 1_000
LINKS_MAX: Final = 10_000
NAME_MAX: Final = 256
HOPS_MAX: Final = 64  # a node refuses what has come further
LEAKS_SHOWN: Final = 6
LEAK_HOMES_MAX: Final = 50  # nodes whose things are followed; the ends of the link come first
NAMES_SHOWN: Final = 4
OTHER: Final = "anything else"  # stands for the types that no rule names
_TERMS: Final = ("name", "strategy", "overrides", "advertise_ids")
_NODE: Final = ("id", "community", "location", "http", "listen", "mqtt")

_RINGS: Final = {
    "advertised": "Offers come along both ways, and subscriptions are held straight at who offers; nothing is delivered twice.",
    "flood-events": "Each notification takes the shortest way to each node once: the ring costs no second copy.",
    "scoped": "Areas of scopes are trees of shortest ways, so what crosses an area does not go round.",
}
_RING: Final = "Every pair of nodes keeps to one shortest way, so nothing goes round and nothing is delivered twice."


class TopologyNode(Struct, frozen=True):
    id: str
    community: str = ""
    location: tuple[float, float] = (0.0, 0.0)  # longitude, latitude
    http: str = ""  # http://host:port
    listen: str = ""  # tcp/host:port or tls/host:port
    mqtt: int = 0  # the port of its MQTT broker
    more: dict[str, Any] = {}  # what a description says besides: its area, settings


class TopologyLink(Struct, frozen=True):
    between: tuple[str, str]
    export: dict[str, Any] | None = {}  # what the first lets go to the second; None: it does not want the link
    back: dict[str, Any] | None = {}

    @property
    def pair(self) -> frozenset[str]:
        return frozenset(self.between)

    def rule(self, here: str) -> dict[str, Any] | None:
        """What the node at this end lets go to the other."""
        return self.export if here == self.between[0] else self.back

    def other(self, here: str) -> str:
        a, b = self.between
        return b if here == a else a


class Topology(Struct, frozen=True):
    nodes: tuple[TopologyNode, ...] = ()
    links: tuple[TopologyLink, ...] = ()
    terms: dict[str, Any] = {}  # [federation]: name, strategy, ...

    @property
    def by_id(self) -> dict[str, TopologyNode]:
        return {node.id: node for node in self.nodes}

    @property
    def strategy(self) -> str:
        return str(self.terms.get("strategy", "advertised"))

    def link(self, a: str, b: str) -> TopologyLink | None:
        return next((link for link in self.links if link.pair == {a, b}), None)

    def links_of(self, node: str) -> list[TopologyLink]:
        return [link for link in self.links if node in link.between]

    def with_node(self, node: TopologyNode) -> Topology:
        if node.id in self.by_id:
            raise InvalidInput(f"there is a node {node.id!r} already; choose another id")
        return msgspec.structs.replace(self, nodes=(*self.nodes, node))

    def with_link(self, link: TopologyLink) -> Topology:
        return msgspec.structs.replace(self, links=(*(old for old in self.links if old.pair != link.pair), link))

    def without_link(self, a: str, b: str) -> Topology:
        return msgspec.structs.replace(self, links=tuple(link for link in self.links if link.pair != {a, b}))


# --- reading ----------------------------------------------------------------------------------------------------------


def decoded(text: str) -> Any:
    """What a file says: JSON if it begins as an object does, otherwise TOML."""
    if len(text.encode()) > FILE_BYTES_MAX:
        raise InvalidInput(f"the file is larger than {FILE_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"it is neither JSON nor TOML: {str(error)[:200]}") from None


def from_plain(raw: Any) -> Topology:
    """As a node tells it, or as a file for `hanse federation up` does."""
    if not isinstance(raw, dict) or not isinstance(raw.get("nodes"), list):
        raise InvalidInput('it names no nodes; a topology has "nodes" and "links"')
    links = raw.get("links", [])
    if len(raw["nodes"]) > NODES_MAX or not isinstance(links, list) or len(links) > LINKS_MAX:
        raise InvalidInput(f"a topology has at most {NODES_MAX} nodes and {LINKS_MAX} links")
    terms = raw.get("federation") or {}
    found = Topology(tuple(map(_node, raw["nodes"])), tuple(map(_link, links)), terms if isinstance(terms, dict) else {})
    _check(found)
    return found


def _node(raw: Any) -> TopologyNode:
    try:
        id_ = raw["id"]
        if not isinstance(id_, str) or not 0 < len(id_) <= NAME_MAX or not id_.isprintable():
            raise InvalidInput(f"{str(id_)[:40]!r} is no id of a node")
        lon, lat = (float(number) for number in (raw.get("location") or (0.0, 0.0)))
        listen = raw.get("listen") or ""
        http = str(raw.get("http") or "")
        return TopologyNode(
            id=id_,
            community=str(raw.get("community") or ""),
            location=(lon, lat),
            http=http if not http or "://" in http else f"http://{http}",
            listen=str(listen if isinstance(listen, str) else listen[0] if listen else ""),
            mqtt=int(raw.get("mqtt") or 0),
            more={name: value for name, value in raw.items() if name not in _NODE},
        )
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError, IndexError):
        raise InvalidInput(f"this is no node: {str(raw)[:80]}; a node has an id, a community and a location") from None


def _link(raw: Any) -> TopologyLink:
    try:
        a, b = raw["between"]
        link = TopologyLink((str(a), str(b)), raw.get("export", {}), raw.get("back", {}))
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(f"this is no link: {str(raw)[:80]}; a link is between two nodes") from None
    for rule in (link.export, link.back):
        if rule is not None:
            if not isinstance(rule, dict):
                raise InvalidInput(f"the rule of the link between {a} and {b} is no object")
            try:
                checked(rule)
            except InvalidInput as error:
                raise error.at(f"the link between {a} and {b}") from None
    return link


def joined(ways: Mapping[tuple[str, str], Rule]) -> Iterator[dict[str, Any]]:
    """Links of what goes one way and the other; where nothing goes back, the rule says so."""
    done: set[frozenset[str]] = set()
    for (here, other), rule in ways.items():
        if frozenset((here, other)) not in done:
            done.add(frozenset((here, other)))
            yield {"between": [here, other], "export": dict(rule), "back": dict(ways.get((other, here), {"deny": True}))}


def _check(found: Topology) -> None:
    if len(found.by_id) != len(found.nodes):
        raise InvalidInput("two nodes have the same id")
    seen: set[frozenset[str]] = set()
    for link in found.links:
        for end in link.between:
            if end not in found.by_id:
                raise InvalidInput(f"a link names {end!r}, which is none of the nodes")
        if len(link.pair) == 1 or link.pair in seen:
            raise InvalidInput(f"the link between {' and '.join(link.between)} is there twice, or joins a node to itself")
        seen.add(link.pair)


# --- writing ----------------------------------------------------------------------------------------------------------


def to_plain(topology: Topology) -> dict[str, Any]:
    """As `GET /hanse/v1/federation/topology` has it."""
    return {
        "federation": topology.terms,
        "nodes": [
            {
                "id": node.id,
                "community": node.community,
                "location": list(node.location),
                "http": node.http,
                "listen": [node.listen] if node.listen else [],
                **({"mqtt": node.mqtt} if node.mqtt else {}),
                **node.more,
            }
            for node in topology.nodes
        ],
        "links": [{"between": list(link.between), "export": link.export, "back": link.back} for link in topology.links],
    }


def to_json(topology: Topology) -> str:
    return msgspec.json.format(msgspec.json.encode(to_plain(topology)), indent=2).decode() + "\n"


def to_toml(topology: Topology) -> str:
    """A file for `hanse federation up`. A link that one end does not want is left out: a file has only links that both want."""
    kept = (*_TERMS, "cloud", "groups", "characterisation")
    terms = {name: topology.terms[name] for name in kept if name in topology.terms}
    parts = [["[federation]", *toml_text.lines({"name": "federation", **terms})]]
    if topology.terms.get("scopes") and "characterisation" not in terms:
        parts[0].append('# characterisation = "scopes.toml"  # the federation has scopes: put their file beside this one')
    for node in topology.nodes:
        parts.append(["[[nodes]]", *_node_lines(node)])
    for link in topology.links:
        if link.export is not None and link.back is not None:
            shown = {"between": link.between, "export": link.export, "back": link.back}
            parts.append(["[[links]]", *toml_text.lines(shown)])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _node_lines(node: TopologyNode) -> Iterable[str]:
    shown = {"id": node.id, "community": node.community, "location": node.location}
    shown |= {"http": node.http.partition("://")[2] or node.http, "listen": node.listen}
    settings = {name: node.more[name] for name in ("area", "settings") if name in node.more}
    return toml_text.lines(shown | ({"mqtt": node.mqtt} if node.mqtt else {}) | settings)


def node_configuration(node: TopologyNode, links: Iterable[tuple[TopologyNode, Rule]], terms: Mapping[str, Any]) -> str:
    """The configuration with which `hanse serve --config` starts a new node that calls the nodes it is to be linked to."""
    host, _, port = node.http.partition("://")[2].rpartition(":")
    lon, lat = node.location
    parts = [
        ["[node]", *toml_text.lines({"id": node.id, "community": node.community, "host": host, "port": int(port or 0)})],
        ["[mqtt]", "embedded = true" if node.mqtt else "embedded = false"] + ([f"port = {node.mqtt}"] if node.mqtt else []),
        ["[store]", f"data = {toml_text.value(f'out/{node.id}')}"],
        [
            "[federation]",
            *toml_text.lines({name: terms[name] for name in _TERMS if terms.get(name)}),
            *toml_text.lines({"listen": node.listen, "longitude": lon, "latitude": lat}),
            *(['characterisation = "scopes.toml"  # the same file as at the other nodes'] if terms.get("scopes") else []),
        ],
    ]
    for other, rule in links:
        parts.append(["[[links]]", *toml_text.lines({"to": other.listen, "node": other.id, "export": dict(rule)})])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


# --- what a change would mean -----------------------------------------------------------------------------------------


class Concern(Struct, frozen=True):
    """`is_bar`: it cannot or should not be done; otherwise something to know before it is."""

    text: str
    is_bar: bool = False


def concerns(topology: Topology, link: TopologyLink, types: Iterable[str] = ()) -> list[Concern]:
    """What a new link, or new rules for one that is there, would bring. `types`: those that nodes are known to have."""
    a, b = link.between
    if a == b:
        return [Concern("A node has no link to itself; choose two nodes.", is_bar=True)]
    for end in link.between:
        if end not in topology.by_id:
            return [Concern(f"There is no node {end!r}; choose one that is there.", is_bar=True)]
    found: list[Concern] = []
    old = topology.link(a, b)
    if old is None and not topology.by_id[a].listen and not topology.by_id[b].listen:
        found.append(Concern(f"Neither {a} nor {b} says where it listens, so that nobody can call.", is_bar=True))
    before = topology.without_link(a, b) if old is not None else topology
    if old is None and (way := shortest(before, a, b)):
        found.append(_ring(topology, way))
    for here in link.between:
        rule = link.rule(here)
        if rule is not None and checked(rule).is_closed:
            found.append(Concern(f"Nothing goes from {here} to {link.other(here)}: its rule lets nothing cross."))
    found += _leaks(topology, topology.with_link(link), link.between, types)
    homes = {topology.by_id[end].community for end in link.between}
    if len(homes) == 2 and any(is_open(link.rule(end)) for end in link.between):
        open_ends = [end for end in link.between if is_open(link.rule(end))]
        words = " and ".join(f"{end} lets everything go to {topology.by_id[link.other(end)].community}" for end in open_ends)
        found.append(Concern(f"The link joins two communities, and {words}. Export rules say what may."))
    return found


def _ring(topology: Topology, way: list[str]) -> Concern:
    ring = " – ".join([*way, way[0]])
    meaning = _RINGS.get(topology.strategy, _RING)
    return Concern(
        f"It closes a ring: {ring}. {meaning} You gain a second way if a link breaks. A message that has come over more than "
        f"{HOPS_MAX} nodes is refused. As Mosquitto bridges, which know no ways, a ring would carry messages round."
    )


def _leaks(before: Topology, after: Topology, ends: tuple[str, str], types: Iterable[str]) -> list[Concern]:
    """What rules keep from a node now, and would not any more; what the link's own ends have comes first."""
    named = sorted({*types, *(name for link in after.links for rule in (link.export, link.back) for name in types_named(rule))})
    then, now = _rules(after), _rules(before)
    homes = sorted(before.by_id, key=lambda home: home not in ends)[:LEAK_HOMES_MAX]
    every_way = _open(now, None)
    near = {home: _from(every_way, home) for home in homes}
    kept: dict[tuple[str, str], list[str]] = {}
    for type_ in [*named, OTHER]:
        ways_then, ways_now = _open(then, type_), _open(now, type_)
        for home in homes:
            for other in sorted((_from(ways_then, home) & near[home]) - _from(ways_now, home)):
                kept.setdefault((home, other), []).append(type_)
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (home, other), names in kept.items():
        found.setdefault((home, tuple(names)), []).append(other)
    said = [
        Concern(
            f"{_capital(_few(names, 'types'))} of {home} would reach {_few(others, 'nodes')}, which export rules prevent now."
        )
        for (home, names), others in found.items()
    ]
    more = len(said) - LEAKS_SHOWN
    return said[:LEAKS_SHOWN] + ([Concern(f"There are {more} more such ways round rules.")] if more > 0 else [])


def _few(names: Sequence[str], what: str) -> str:
    shown = list(names)
    if len(shown) > NAMES_SHOWN:
        shown = [*shown[: NAMES_SHOWN - 1], f"{len(shown) - NAMES_SHOWN + 1} more {what}"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def reached(topology: Topology, home: str, type_: str | None) -> set[str]:
    """The nodes that something of a type can come to from its home under export rules; without a type, whatever rules say."""
    return _from(_open(_rules(topology), type_), home)


def _rules(topology: Topology) -> list[tuple[str, str, ExportRule]]:
    """From, to, and the rule, of links that both ends want."""
    return [
        (here, link.other(here), checked(rule))
        for link in topology.links
        if link.export is not None and link.back is not None
        for here, rule in zip(link.between, (link.export, link.back), strict=True)
    ]


def _open(rules: Iterable[tuple[str, str, ExportRule]], type_: str | None) -> dict[str, list[str]]:
    """Where something of a type can go from each node."""
    ways: dict[str, list[str]] = {}
    for here, other, rule in rules:
        if type_ is None or rule.allows_type(type_):
            ways.setdefault(here, []).append(other)
    return ways


def _from(ways: Mapping[str, list[str]], home: str) -> set[str]:
    found, waiting = {home}, deque([home])
    while waiting:
        for other in ways.get(waiting.popleft(), ()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def shortest(topology: Topology, start: str, end: str) -> list[str]:
    """The nodes of a shortest way over links that both ends want; nothing if there is none."""
    before: dict[str, str] = {start: start}
    waiting = deque([start])
    while waiting and end not in before:
        here = waiting.popleft()
        for link in topology.links_of(here):
            if link.export is not None and link.back is not None and (other := link.other(here)) not in before:
                before[other] = here
                waiting.append(other)
    if end not in before:
        return []
    way = [end]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


def concerns_of_removal(topology: Topology, a: str, b: str) -> list[Concern]:
    """Who would be cut off from whom."""
    left = topology.without_link(a, b)
    part = reached(left, a, None)
    if b in part:
        return [Concern(f"{a} and {b} still have a way to each other: {' – '.join(shortest(left, a, b))}.")]
    other = reached(left, b, None)
    small, large = sorted((part, other), key=len)
    return [Concern(f"{', '.join(sorted(small))} would be cut off from {', '.join(sorted(large))}.")]


# --- from one topology to another -------------------------------------------------------------------------------------


class Change(Struct, frozen=True):
    """One thing to do: `start` a node, `link`, `unlink`, or change a `rule`."""

    what: str
    text: str
    link: TopologyLink | None = None
    node: TopologyNode | None = None


def difference(now: Topology, wanted: Topology) -> list[Change]:
    """What is to be done, in an order in which it can be. Nodes that are not wanted are left alone: nobody here can end them."""
    found = [
        Change("start", f"Start the node {node.id} of {node.community or 'no community'}", node=node)
        for node in wanted.nodes
        if node.id not in now.by_id
    ]
    for link in wanted.links:
        old = now.link(*link.between)
        a, b = link.between
        if old is None:
            found.append(Change("link", f"Link {a} and {b}", link=link))
        elif any((old.rule(end) or {}) != (link.rule(end) or {}) for end in link.between):
            words = "; ".join(f"{end} to {link.other(end)}: {short(link.rule(end))}" for end in link.between)
            found.append(Change("rule", f"Change the rules between {a} and {b} ({words})", link=link))
    for link in now.links:
        if wanted.link(*link.between) is None and all(end in wanted.by_id for end in link.between):
            found.append(Change("unlink", f"Take the link between {' and '.join(link.between)} away", link=link))
    return found
