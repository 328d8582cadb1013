"""A topology as configurations of Mosquitto brokers, as the ComDeX demo writes them, and back.

A file for each node: where it listens, and a `connection` for each link, which passes offers on (`provider/...`) as far as the
node's export rule lets it. A bridge passes on whatever its topics match and can hold nothing else back, so a rule that topics
cannot say is written as a comment, and nothing is bridged: what is read back is the rule, and nothing leaks meanwhile.

An offer's topic is provider/BROKER/AREA/CONTEXT/TYPE, or with the entity's id behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from hanse.dashboard.rules import Rule, checked, is_open
from hanse.dashboard.topology import FILE_BYTES_MAX, Topology, TopologyNode, decoded, from_plain, joined
from hanse.model import InvalidInput

FILES_MAX: Final = 200
FIRST_PORT: Final = 1883
EVERYTHING: Final = "provider/#"
_NODE: Final = "# hanse node "
_EXPORT: Final = "# hanse export "
_LEVELS: Final = re.compile(r"^provider/\+/\+/\+/([^/#]+)(?:/#|/\+)?$")
_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]")
_ENDS: Final = re.compile(r"^mosquitto[-_.]?|[-_.]?mosquitto$")


def topics_of(rule: Rule) -> list[str] | None:
    """The topics of the offers that a rule lets cross; None if topics cannot say it."""
    meant = checked(rule)
    if is_open(rule):
        return [EVERYTHING]
    if meant.is_closed:
        return []
    only_types = {"types"} >= {name for name, value in rule.items() if value and name != "deny"}
    if not only_types or not meant.types or any(sign in name for name in meant.types for sign in "*?[]+#/"):
        return None
    return [f"provider/+/+/+/{name}/#" for name in meant.types]


def rule_of_topics(topics: Iterable[str]) -> dict[str, Any]:
    """What a bridge with such topics lets pass: types if all of them name one, everything if one of them takes all offers."""
    types = []
    for topic in topics:
        found = _LEVELS.match(topic)
        if found is None or found[1] == "+":
            return {}
        types.append(found[1])
    return {"types": types} if types else {"deny": True}


# --- writing ----------------------------------------------------------------------------------------------------------


def write(topology: Topology) -> dict[str, str]:
    """The files by their names."""
    places = _places(topology)
    return {f"{_NAME.sub('_', node.id)}_mosquitto.conf": _file(topology, node, places) for node in topology.nodes}


def _file(topology: Topology, node: TopologyNode, places: Mapping[str, tuple[str, int]]) -> str:
    host, port = places[node.id]
    about = {"id": node.id, "community": node.community, "location": node.location, "http": node.http, "listen": node.listen}
    lines = [_NODE + msgspec.json.encode(about).decode(), f"listener {port} {host}", "allow_anonymous true"]
    for link in topology.links_of(node.id):
        rule, other = link.rule(node.id), link.other(node.id)
        if rule is None:
            continue
        lines += ["", _EXPORT + msgspec.json.encode({"to": other, "rule": rule}).decode()]
        topics = topics_of(rule)
        if topics is None:
            lines.append(
                f"# A bridge cannot say this rule, so nothing is bridged to {other}: name the types that may cross instead."
            )
        elif not topics:
            lines.append(f"# Nothing goes to {other}.")
        else:
            lines.append(f"connection {_NAME.sub('_', node.id)}_to_{_NAME.sub('_', other)}")
            lines.append("address {}:{}".format(*places[other]))
            lines += [f'topic {topic} out 2 "" ""' for topic in topics]
    return "\n".join(lines) + "\n"


def _places(topology: Topology) -> dict[str, tuple[str, int]]:
    """Host and port of each node's broker; who has said none gets the next port of its host."""
    found: dict[str, tuple[str, int]] = {}
    used: dict[str, set[int]] = {}
    for node in topology.nodes:
        address = node.http.partition("://")[2] or node.listen.partition("/")[2]
        host = str(node.more.get("ip") or address.rpartition(":")[0] or "127.0.0.1")
        taken = used.setdefault(host, {other.mqtt for other in topology.nodes if other.mqtt})
        port = node.mqtt or next(port for port in range(FIRST_PORT, 65536) if port not in taken)
        taken.add(port)
        found[node.id] = (host, port)
    return found


def not_bridged(topology: Topology) -> list[str]:
    """The ways over which a bridge would pass nothing on, because topics cannot say the rule."""
    return [
        f"{here} to {link.other(here)}"
        for link in topology.links
        for here in link.between
        if (rule := link.rule(here)) is not None and topics_of(rule) is None
    ]


# --- reading ----------------------------------------------------------------------------------------------------------


class _Bridge:
    """A `connection` while its lines are read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = ""
        self.out: list[str] = []
        self.back: list[str] = []


def read(files: Mapping[str, str]) -> Topology:
    """Nodes and links of configurations, each under the name of its file."""
    if len(files) > FILES_MAX or sum(map(len, files.values())) > FILE_BYTES_MAX:
        raise InvalidInput(f"at most {FILES_MAX} files with {FILE_BYTES_MAX} bytes in all can be read")
    nodes: dict[str, dict[str, Any]] = {}
    by_address: dict[str, str] = {}
    bridges: list[tuple[str, _Bridge]] = []
    ways: dict[tuple[str, str], Rule] = {}
    said: dict[tuple[str, str], Rule] = {}
    for name, text in files.items():
        node, host, port, found = _read_file(name, text, said)
        nodes[node["id"]] = node | ({"mqtt": port} if port else {})
        by_address[f"{_here(host)}:{port}"] = node["id"]
        bridges += [(node["id"], bridge) for bridge in found]
    for here, bridge in bridges:
        host, _, port_text = bridge.address.rpartition(":")
        host, port_text = (host, port_text) if port_text.isdigit() else (bridge.address, str(FIRST_PORT))
        other = by_address.get(f"{_here(host)}:{port_text}") or bridge.name.rpartition("_to_")[2] or bridge.address
        nodes.setdefault(other, {"id": other, "mqtt": int(port_text)})
        if bridge.out:
            ways[here, other] = rule_of_topics(bridge.out)
        if bridge.back:
            ways[other, here] = rule_of_topics(bridge.back)
    # what was written here is meant, whatever the topics can say of it
    ways |= {(here, other): rule for (here, other), rule in said.items() if other in nodes}
    if not nodes:
        raise InvalidInput("there is no file to read; give configurations of Mosquitto")
    return from_plain({"nodes": list(nodes.values()), "links": list(joined(ways))})


def _read_file(name: str, text: str, said: dict[tuple[str, str], Rule]) -> tuple[dict[str, Any], str, int, list[_Bridge]]:
    node: dict[str, Any] = {"id": _ENDS.sub("", name.rpartition("/")[2].removesuffix(".conf")) or "broker"}
    host, port, bridges = "127.0.0.1", 0, []
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        place = f"{name}, line {number}"
        if line.startswith(_NODE):
            node = _json(line.removeprefix(_NODE), place)
        elif line.startswith(_EXPORT):
            export = _json(line.removeprefix(_EXPORT), place)
            said[str(node.get("id")), str(export.get("to"))] = export.get("rule") or {}
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0] in ("listener", "port") and len(words) > 1:
            if not words[1].isdigit():
                raise InvalidInput(f"{words[1]!r} is no port", place=place)
            port = int(words[1])
            host = words[2] if len(words) > 2 else host
        elif words[0] == "connection" and len(words) > 1:
            bridges.append(_Bridge(words[1]))
        elif words[0] in ("address", "addresses") and len(words) > 1 and bridges:
            bridges[-1].address = words[1]
        elif words[0] == "topic" and len(words) > 1 and bridges:
            way = words[2] if len(words) > 2 else "out"
            if way not in ("in", "out", "both"):
                raise InvalidInput(f"{way!r} is no direction; a topic goes out, in or both", place=place)
            bridges[-1].out += [words[1]] if way in ("out", "both") else []
            bridges[-1].back += [words[1]] if way in ("in", "both") else []
    for bridge in bridges:
        if not bridge.address:
            raise InvalidInput(f"the connection {bridge.name!r} says no address", place=name)
    return node, host, port or FIRST_PORT, bridges


def _json(text: str, place: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        raise InvalidInput("this comment was changed, and is not JSON any more", place=place) from None


def _here(host: str) -> str:
    return "127.0.0.1" if host in ("localhost", "0.0.0.0", "::1", "") else host  # noqa: S104


# --- files of any kind ------------------------------------------------------------------------------------------------


def read_files(files: Mapping[str, str]) -> Topology:
    """A topology from what a person has: one JSON or TOML file, or configurations of Mosquitto (.conf), several at once."""
    if not files:
        raise InvalidInput("there is no file to read; give a topology in JSON or TOML, or configurations of Mosquitto")
    if all(name.endswith(".conf") for name in files):
        return read(files)
    if len(files) > 1:
        raise InvalidInput("several files are read together only if all of them end with .conf; give one file")
    ((name, text),) = files.items()
    try:
        raw = decoded(text)
        return from_plain(_of_comdex(raw) if isinstance(raw, dict) and "edges" in raw else raw)
    except InvalidInput as error:
        raise error.at(name) from None


def _of_comdex(raw: dict[str, Any]) -> dict[str, Any]:
    """The topology.json of the ComDeX demo: brokers with an IP address, and edges, each one way, with a topic."""
    nodes, edges = ([one for one in raw.get(part) or () if isinstance(one, dict)] for part in ("nodes", "edges"))
    ways = {
        (str(edge.get("source")), str(edge.get("target"))): rule_of_topics([str(edge.get("topic") or EVERYTHING)])
        for edge in edges
    }
    made = [
        {"id": one.get("id"), "community": one.get("community"), "mqtt": one.get("port"), "ip": one.get("ip")} for one in nodes
    ]
    return {"nodes": made, "links": list(joined(ways))}
