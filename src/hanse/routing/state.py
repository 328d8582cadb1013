"""What a broker remembers, apart from its strategy: plain values, so that it can be stored and restored whole."""

from __future__ import annotations

from msgspec import Struct, field

from hanse.model import UNIT, Advertisement, Location, Notification, Subscription
from hanse.routing.messages import ClientLocation, HandoverRequest, Request, VisibilityNews


class Client(Struct):
    """A client whose home is this broker."""

    location: Location | None = None
    stays: list[tuple[int, str, Location | None]] = field(default_factory=list)  # since when it was at which node, and where
    connected: bool = True
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    advertisements: dict[str, Advertisement] = field(default_factory=dict)
    waiting: list[tuple[str, Notification, str]] = field(default_factory=list)  # subscription, notification, its home
    turn: int = 0  # which of its stays this is
    awaiting: dict[int, str] = field(
        default_factory=dict
    )  # turn -> the node that has yet to hand it over, or to say that it can't
    overtaken_by: int = 0  # it has gone on, to a node that has its state: the turn there
    requests: list[tuple[int, Request]] = field(default_factory=list)  # what it asked for meanwhile, with the turn
    asked: list[HandoverRequest] = field(default_factory=list)  # who asked for it meanwhile

    def stay_at(self, at_ms: int) -> tuple[str, Location | None] | None:
        """The node that it was at then, and where, as far as remembered."""
        return next(((node, location) for since_ms, node, location in reversed(self.stays) if since_ms <= at_ms), None)

    @property
    def is_forgettable(self) -> bool:
        """Nothing would be lost with it."""
        kept = self.subscriptions or self.advertisements or self.waiting or self.requests or self.awaiting or self.asked
        return not kept and not self.overtaken_by and self.location is None and not self.connected

    @property
    def is_settled(self) -> bool:
        return not self.awaiting and not self.overtaken_by


class Held(Struct):
    """A subscription that is matched here. `vias`: for each scope area, the neighbour on the way home, and by which version."""

    subscription: Subscription
    home: str
    version: int
    since_ms: int = 0  # when its client last changed it
    vias: dict[str, tuple[str, int]] = field(default_factory=dict)


class Moved(Struct):
    """A client that has gone to another broker: what still comes for it is forwarded, for a while."""

    to: str
    until_ms: int
    left_behind: list[tuple[Subscription, int, tuple[str, ...]]]  # with version, and where else it is held


class OpenQuery(Struct):
    client: str
    until_ms: int
    awaited: dict[str, int]  # how many entities are still to come from whom; -1: not known yet
    entities: list[Notification] = field(default_factory=list)


class BrokerState(Struct):
    clock: int = 0  # the highest version given or heard of
    clients: dict[str, Client] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    placed: dict[str, tuple[str, ...]] = field(default_factory=dict)  # own subscription -> the brokers that hold it too
    locations: dict[str, ClientLocation] = field(default_factory=dict)
    delivered: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # notification's key -> subscriptions; oldest first
    restricted: dict[tuple[str, str], Notification] = field(default_factory=dict)  # published here lately, under export rules
    tombstones: dict[str, int] = field(default_factory=dict)
    moved: dict[str, Moved] = field(default_factory=dict)
    arriving: set[str] = field(default_factory=set)  # clients whose hand-over to this broker is under way
    meanwhile: dict[tuple[str, str], tuple[Notification, str]] = field(
        default_factory=dict
    )  # what was matched here since they came
    queries: dict[str, OpenQuery] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)  # asker and query -> `q` of a query that another broker has asked
    borders: dict[str, VisibilityNews] = field(default_factory=dict)  # the latest change of each way across each border


def own_id(client: str, id_: str) -> str:
    """A subscription's name in the whole federation."""
    return f"{client}{UNIT}{id_}"


def given_id(own: str) -> str:
    """The id that the client gave it."""
    return own.partition(UNIT)[2]


def client_of(own: str) -> str:
    """Whose subscription it is."""
    return own.partition(UNIT)[0]
