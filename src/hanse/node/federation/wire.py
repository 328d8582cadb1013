"""What nodes say to each other, as bytes: what each says of itself, and frames of links.

Everything that comes from outside is decoded here, within bounds; what cannot be decoded is a `NotBelieved`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput, Location, Polygon
from hanse.ngsild.errors import BadRequestData
from hanse.node.federation.identity import NotBelieved
from hanse.routing import ExportRule
from hanse.routing import messages as m

PROTOCOL: Final = 2
RECORDS_MAX: Final = 10_000
FRAMES_MAX: Final = 1_024
MESSAGE_BYTES_MAX: Final = 16 << 20  # of one broker's message; the largest body of a request fits, as a rule
HOPS_MAX: Final = 64  # what causes what, over how many nodes


class Terms(Struct, frozen=True, omit_defaults=True):
    """What all nodes of a federation must agree on."""

    federation: str
    strategy: str
    overrides: dict[str, str] = {}  # type of entity -> strategy
    advertise_ids: bool = False
    cloud: str = ""
    groups: tuple[tuple[str, ...], ...] = ()  # broadcast groups, leaders first
    scopes: str = ""  # a digest of the characterisation
    protocol: int = PROTOCOL

    def difference(self, other: Terms) -> str:
        """What two nodes do not agree on, in words; nothing if they do."""
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"{name} is {_shown(theirs)} there and {_shown(mine)} here"
        return ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class Record(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a node says of itself; the newest version counts."""

    node: str
    terms: Terms
    version: int
    community: str = ""
    location: Location = Location(0.0, 0.0)
    area: Polygon | None = None
    http: str = ""
    listen: tuple[str, ...] = ()
    links: dict[str, ExportRule] = {}  # to whom, and what it lets go there
    certificate: bytes = b""
    left: bool = False  # for good


class Signed(Struct, frozen=True, array_like=True):
    record: bytes
    signature: bytes = b""


class Hello(Struct, frozen=True, tag=True):
    """Said to everyone when a node comes, and every so often: itself, which versions of others it knows, and a digest of the
    data models that it has.
    """

    own: Signed
    known: dict[str, int]
    models: str = ""


class Records(Struct, frozen=True, tag=True):
    records: list[Signed]


class WireFrame(Struct, frozen=True, array_like=True):
    session: int
    to_session: int
    number: int
    acknowledges: int
    message: bytes | None = None


class Frames(Struct, frozen=True, tag=True):
    """Enciphered: a list of frames of the link between two nodes."""

    sealed: bytes


class Envelope(Struct, frozen=True, array_like=True):
    """A broker's message on a link: for which plane, and how far what caused it has come."""

    plane: int
    hops: int
    message: m.BrokerMessage


Packet = Hello | Records | Frames

encode = msgspec.msgpack.Encoder().encode
_packets = msgspec.msgpack.Decoder(Packet)
_frames = msgspec.msgpack.Decoder(list[WireFrame])
_envelopes = msgspec.msgpack.Decoder(Envelope)
_records = msgspec.msgpack.Decoder(Record)
_messages = msgspec.msgpack.Decoder(m.Message)


def _decoded(decoder: Any, data: bytes, what: str) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, InvalidInput, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise NotBelieved(f"that is no {what}: {str(error)[:200]}") from None


def packet(data: bytes) -> Packet:
    found: Packet = _decoded(_packets, data, "packet")
    if isinstance(found, Hello) and len(found.known) > RECORDS_MAX:
        raise NotBelieved(f"more than {RECORDS_MAX} nodes")
    if isinstance(found, Records) and len(found.records) > RECORDS_MAX:
        raise NotBelieved(f"more than {RECORDS_MAX} records")
    return found


def frames(data: bytes) -> list[WireFrame]:
    found: list[WireFrame] = _decoded(_frames, data, "list of frames")
    if len(found) > FRAMES_MAX:
        raise NotBelieved(f"more than {FRAMES_MAX} frames at once")
    return found


def envelope(data: bytes) -> Envelope:
    if len(data) > MESSAGE_BYTES_MAX:
        raise NotBelieved(f"the message has {len(data)} bytes; {MESSAGE_BYTES_MAX} are allowed")
    found: Envelope = _decoded(_envelopes, data, "message of a broker")
    if not 0 <= found.hops <= HOPS_MAX:
        raise NotBelieved(f"the message has gone round: {found.hops} hops")
    if found.plane < 0:  # which would be one counted from the last
        raise NotBelieved(f"there is no plane {found.plane}")
    return found


def record(data: bytes) -> Record:
    found: Record = _decoded(_records, data, "record of a node")
    return found


def message(data: bytes) -> m.Message:
    """As the journal has it."""
    found: m.Message = _messages.decode(data)
    return found


def encode_request(request: m.Request) -> bytes:
    """What a client here asks for. Raises BadRequestData if other nodes could not be told."""
    try:
        return encode(request)
    except OverflowError:
        raise BadRequestData("a number has more than 64 bits, which nodes cannot tell each other; write it as text") from None
