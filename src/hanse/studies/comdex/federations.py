"""The federations of the study: chains of a given width, and the smart port in several topologies; as simulated ones, and as
processes of this machine with what their nodes have written down.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.model.ports import free_ports
from hanse.node.federation import keeping, wire
from hanse.node.federation.local import LocalFederation
from hanse.routing import ExportRule, Federation, Link, Node
from hanse.routing import messages as m
from hanse.simulation.smart_port import COMMUNITIES

CLOSED: Final = ExportRule(deny=True)
NODES: Final = tuple(node for nodes in COMMUNITIES.values() for node in nodes)
TOPS: Final = tuple(nodes[0] for nodes in COMMUNITIES.values())
_SUBS: Final = tuple((sub, nodes[0]) for nodes in COMMUNITIES.values() for sub in nodes[1:])


class Plan(Struct, frozen=True):
    """Nodes, and links between them: what the first end lets go to the second, and back."""

    nodes: tuple[str, ...]
    links: tuple[tuple[str, str, ExportRule, ExportRule], ...] = ()

    def federation(self) -> Federation:
        ways = [link for a, b, out, back in self.links for link in (Link(a, b, out), Link(b, a, back))]
        return Federation(tuple(Node(node) for node in self.nodes), tuple(ways))


def _open(
    pairs: Sequence[tuple[str, str]], back: ExportRule | None = None
) -> tuple[tuple[str, str, ExportRule, ExportRule], ...]:
    return tuple((a, b, ExportRule(), back or ExportRule()) for a, b in pairs)


def chain(width: int) -> Plan:
    """n1, where data come from, to n`width`, where the subscriber is."""
    names = tuple(f"n{i}" for i in range(1, width + 1))
    return Plan(names, _open(list(pairwise(names))))


TOPOLOGIES: Final = {
    "mesh": Plan(NODES, _open(list(combinations(NODES, 2)))),
    # the paper's: what a sub-broker has is told upwards and among the tops, and nothing is told downwards
    "hybrid": Plan(NODES, _open(_SUBS, CLOSED) + _open(list(combinations(TOPS, 2)))),
    "hybrid, both ways": Plan(NODES, _open(_SUBS) + _open(list(combinations(TOPS, 2)))),
    "single": Plan(("port",)),
}


# --- as processes --------------------------------------------------------------------------------------------------------------


@contextmanager
def running(plan: Plan, *, by_id: bool = False) -> Iterator[LocalFederation]:
    """All nodes as processes on free ports, linked with certificates; gone at the end with all that they wrote."""
    with tempfile.TemporaryDirectory(prefix="hanse-comdex-") as name:
        folder = Path(name)
        file = folder / "federation.toml"
        file.write_text(_toml(plan, by_id=by_id))
        with LocalFederation(file, folder, secure=True) as federation:
            federation.start()
            yield federation


def _toml(plan: Plan, *, by_id: bool) -> str:
    ports = iter(free_ports(2 * len(plan.nodes)))
    lines = ["[federation]", 'name = "comdex"', 'strategy = "advertised"', f"advertise_ids = {str(by_id).lower()}"]
    for node in plan.nodes:
        listen = f"tls/127.0.0.1:{next(ports)}"
        lines += [
            "[[nodes]]",
            f'id = "{node}"',
            'community = "study"',
            f'http = "127.0.0.1:{next(ports)}"',
            f'listen = "{listen}"',
        ]
    for a, b, out, back in plan.links:
        lines += ["[[links]]", f'between = ["{a}", "{b}"]', f"export = {_table(out)}", f"back = {_table(back)}"]
    return "\n".join(lines) + "\n"


def _table(rule: ExportRule) -> str:
    """A rule as an inline table."""
    members: dict[str, Any] = msgspec.to_builtins(rule)
    return "{" + ", ".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in members.items()) + "}"


# --- what nodes have written down ---------------------------------------------------------------------------------------------


def _reading(federation: LocalFederation, node: str) -> sqlite3.Connection:
    path = federation.folder / node / "data" / "default.sqlite"
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def received(federation: LocalFederation, node: str) -> dict[str, int]:
    """How many messages a node has received over each of its links, all stored."""
    with closing(_reading(federation, node)) as connection:
        return {peer: numbers.received for peer, numbers in keeping.read_links(connection).items()}


def told(federation: LocalFederation, node: str) -> list[tuple[int, str, m.Message]]:
    """What a node's broker has been told lately: when (ms), by whom ('': a client), what."""
    with closing(_reading(federation, node)) as connection:
        return [(entry.at_ms, entry.sender, wire.message(entry.message)) for entry in keeping.read_told(connection, 0)]
