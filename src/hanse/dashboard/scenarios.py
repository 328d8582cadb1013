"""Three federations to begin with, one for each story: files for `hanse federation up`, on this machine."""

from __future__ import annotations

from typing import Any, Final

from hanse.dashboard.topology import Topology, TopologyLink, TopologyNode

_HTTP, _LINKS = 9101, 7101  # the first ports; one more for each node
_PLACES: Final = ((25.1465, 35.3445), (25.1440, 35.3460), (25.1490, 35.3465), (25.1380, 35.3390), (25.1300, 35.3350))
_PORT, _BUS, _FIRE = "port-authority", "intercity-bus", "fire-brigade"


def scenarios() -> dict[str, Topology]:
    """By the key of the story that it is for."""
    return {
        "one": _federation("one-node", {"port": _PORT}),
        "community": _federation(
            "one-community",
            {"port": _PORT, "port-a": _PORT, "port-b": _PORT},
            _link("port-a", "port"),
            _link("port-b", "port"),
        ),
        "communities": _federation(
            "several-communities",
            {"port": _PORT, "port-a": _PORT, "port-b": _PORT, "bus": _BUS, "fire": _FIRE},
            _link("port-a", "port"),
            _link("port-b", "port"),
            _link("port", "bus", {"deny_types": ["Person", "Camera"]}, {"deny_types": ["Driver"]}),
            _link("port", "fire", {"types": ["Building", "Room", "Alert", "Vehicle"]}, {"types": ["Alert", "Vehicle"]}),
        ),
    }


def _federation(name: str, nodes: dict[str, str], *links: TopologyLink) -> Topology:
    made = tuple(
        TopologyNode(id_, community, _PLACES[i], f"http://127.0.0.1:{_HTTP + i}", f"tcp/127.0.0.1:{_LINKS + i}")
        for i, (id_, community) in enumerate(nodes.items())
    )
    return Topology(made, links, {"name": name, "strategy": "advertised"})


def _link(a: str, b: str, export: dict[str, Any] | None = None, back: dict[str, Any] | None = None) -> TopologyLink:
    return TopologyLink((a, b), export or {}, back or {})
