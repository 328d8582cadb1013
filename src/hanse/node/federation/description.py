"""A federation as a file says it, and this node's place in it.

One file can describe a whole federation, for `hanse federation up` and for nodes that are set up together; or a node's own
configuration names its links, and it gets to know the others from them. Names of types in rules may be short: they stand
for the default vocabulary.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput, Location, Polygon
from hanse.ngsild.entity import DEFAULT_VOCAB
from hanse.node.federation.planes import check_strategies
from hanse.node.federation.wire import Record, Terms
from hanse.routing import ExportRule
from hanse.scopes import Scopes
from hanse.scopes.characterisation import parse

FILE_BYTES_MAX: Final = 4 << 20
_TYPES: Final = ("types", "deny_types", "attributes", "deny_attributes")


class DescribedNode(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    community: str = ""
    location: tuple[float, float] = (0.0, 0.0)  # longitude, latitude
    area: list[list[tuple[float, float]]] = []  # rings of a polygon: longitude, latitude
    http: str = ""  # 127.0.0.1:9101
    listen: str = ""  # tcp/127.0.0.1:7401 or tls/host:port
    mqtt: int = 0  # port of its MQTT broker; 0: none
    settings: dict[str, dict[str, Any]] = {}  # any other sections of its configuration


class DescribedLink(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    between: tuple[str, str]
    export: dict[str, Any] = {}  # what the first lets go to the second
    back: dict[str, Any] = {}  # and the second to the first
    via: str = ""  # where the first calls, if not where the second listens


class FederationTerms(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    strategy: str = "advertised"
    overrides: dict[str, str] = {}
    advertise_ids: bool = False
    cloud: str = ""
    groups: list[list[str]] = []
    characterisation: str = ""  # a file
    certificates: str = ""  # a folder, as `hanse federation init` makes it


class FederationFile(Struct, frozen=True, forbid_unknown_fields=True):
    federation: FederationTerms
    nodes: list[DescribedNode]
    links: list[DescribedLink] = []


def read_file(path: Path) -> FederationFile:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InvalidInput(f"the file is larger than {FILE_BYTES_MAX} bytes", place=str(path))
        found = msgspec.toml.decode(path.read_bytes(), type=FederationFile)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", place=str(path)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(f"is no description of a federation: {error}", place=str(path)) from error
    _check(found, str(path))
    return found


def _check(file: FederationFile, place: str) -> None:
    terms = file.federation
    check_strategies([terms.strategy, *terms.overrides.values()])
    ids = [node.id for node in file.nodes]
    if not ids:
        raise InvalidInput("names no [[nodes]]", place=place)
    if len(set(ids)) != len(ids):
        raise InvalidInput("two nodes have the same id", place=place)
    seen = set()
    for link in file.links:
        for end in link.between:
            if end not in ids:
                raise InvalidInput(f"a link names {end!r}, which is none of [[nodes]]", place=place)
        pair = frozenset(link.between)
        if len(pair) == 1 or pair in seen:
            raise InvalidInput(
                f"the link between {' and '.join(link.between)} is there twice, or joins a node to itself", place=place
            )
        seen.add(pair)
        for given in (link.export, link.back):
            rule_of(given, place)
    if "broadcast-groups" in (terms.strategy, *terms.overrides.values()):
        grouped = [node for group in terms.groups for node in group]
        if terms.cloud not in ids or sorted([*grouped, terms.cloud]) != sorted(ids):
            raise InvalidInput("broadcast-groups needs a cloud, and groups that have every other node once", place=place)


def rule_of(given: dict[str, Any], place: str = "[[links]]") -> ExportRule:
    """An export rule; short names of types and attributes stand for themselves and for the default vocabulary."""
    known = set(ExportRule.__struct_fields__)
    for key in given:
        if key not in known:
            raise InvalidInput(f"an export rule has no {key!r}; it has {', '.join(sorted(known))}", place=place)
    wide = {key: _wide(value) if key in _TYPES and isinstance(value, list) else value for key, value in given.items()}
    try:
        return msgspec.convert(wide, ExportRule)
    except (msgspec.ValidationError, InvalidInput) as error:
        raise InvalidInput(f"the export rule cannot be used: {error}", place=place) from None


def _wide(names: list[Any]) -> list[Any]:
    found: list[Any] = []
    for name in names:
        found.append(name)
        if isinstance(name, str) and ":" not in name:
            found.append(DEFAULT_VOCAB + name)
    return found


class Description:
    """What a node knows of its federation before it has heard of anyone."""

    def __init__(
        self, file: FederationFile, node: str, folder: Path, awaited: list[tuple[str, str, ExportRule]] | None = None
    ) -> None:
        self._file = file
        self._node = node
        self._awaited = awaited or []  # addresses to call, the node that should be there, and what may go to it
        terms = file.federation
        self._scopes_text = _text_of(folder / terms.characterisation) if terms.characterisation else ""
        self.terms = Terms(
            terms.name,
            terms.strategy,
            terms.overrides,
            terms.advertise_ids,
            terms.cloud,
            tuple(tuple(group) for group in terms.groups),
            blake2b(self._scopes_text.encode(), digest_size=16).hexdigest() if self._scopes_text else "",
        )
        self._nodes = {described.id: described for described in file.nodes}
        if node not in self._nodes:
            raise InvalidInput(
                f"the federation {terms.name!r} has no node {node!r}; [node] id is one of {', '.join(self._nodes)}"
            )

    @property
    def listen(self) -> tuple[str, ...]:
        listen = self._nodes[self._node].listen
        return (listen,) if listen else ()

    def connect(self) -> list[str]:
        """The addresses that this node calls: of each link the first end calls the second."""
        called = [link.via or self._nodes[link.between[1]].listen for link in self._file.links if link.between[0] == self._node]
        return [address for address in (*called, *(address for address, _, _ in self._awaited)) if address]

    def scopes(self) -> Scopes:
        return parse(self._scopes_text).scopes() if self._scopes_text else Scopes()

    def own(self) -> Record:
        return self._record(self._nodes[self._node])

    def records(self) -> list[Record]:
        return [self._record(node) for node in self._nodes.values()]

    def awaited(self, record: Record) -> ExportRule | None:
        """What may go to a node that was named by its address or name only; None: it was not."""
        for address, node, rule in self._awaited:
            if node == record.node or (not node and address in record.listen):
                return rule
        return None

    def _record(self, node: DescribedNode) -> Record:
        links: dict[str, ExportRule] = {}
        for link in self._file.links:
            a, b = link.between
            if a == node.id:
                links[b] = rule_of(link.export)
            elif b == node.id:
                links[a] = rule_of(link.back)
        for _, other, rule in self._awaited if node.id == self._node else ():
            if other:
                links.setdefault(other, rule)
        rings = tuple(tuple((lon, lat) for lon, lat in ring) for ring in node.area)
        return Record(
            node=node.id,
            terms=self.terms,
            version=0,
            community=node.community,
            location=Location(node.location[1], node.location[0]),
            area=Polygon((rings,)) if rings else None,
            http=f"http://{node.http}" if node.http else "",
            listen=(node.listen,) if node.listen else (),
            links=links,
        )


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the characterisation cannot be read: {error}", place=str(path)) from error
