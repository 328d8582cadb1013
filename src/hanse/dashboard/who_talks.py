"""Who talks with whom under a strategy, for the map: how it divides the brokers, and the ways that one subscription and one
notification really take. Pure, but for the time that it takes.

The ways are measured, not drawn from memory: real brokers get the first actions of the workload, then one subscription and one
notification of clients of the chosen broker, and every link that these cross is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import shapely
from msgspec import Struct
from msgspec.structs import replace

from hanse.dashboard.map import COLORS
from hanse.dashboard.simulating import Setup, made
from hanse.model import Circle, Geofence, InvalidInput, Polygon
from hanse.routing import Settings
from hanse.routing import messages as m
from hanse.simulation.actions import Action
from hanse.simulation.engine import Simulator
from hanse.simulation.run import settings_for

CLIENTS_MAX: Final = 100  # to show the ways with, but at least one for each broker
SECONDS: Final = 60
ACTIONS_MAX: Final = 4_000
PAUSE_MS: Final = 60_000
OVERLAY_MAX: Final = 300  # links that are still a picture
AREA_STEP_DEG: Final = 2.0  # finer fields are drawn as coarsely as this
TOPICS_MAX: Final = 50
CIRCLE_POINTS: Final = 48
PLAIN: Final = "#7d8c99"
SUBSCRIBES: Final = "#e0a100"  # these three are no colours of brokers
NOTIFIES: Final = "#e0004d"
BOTH: Final = "#00a38d"
WAYS: Final = (SUBSCRIBES, NOTIFIES, BOTH)


class Picture(Struct, frozen=True):
    broker: str
    things: dict[str, Any]  # for the map
    legend: list[tuple[str, str]]  # colour, what it means
    says: list[str]
    topics: list[tuple[str, str]]  # topic or type, the broker that it is hashed to


class _Ways(NamedTuple):
    subscribing: set[tuple[str, str]]
    notifying: set[tuple[str, str]]
    fence: Geofence | None  # of the notification, or else of the subscription
    delivered: int


def picture_or_problem(setup: Setup, strategy: str, broker: str) -> Picture | str:
    """What is wrong with the setup, in words, if something is; a broker that the topology does not have is not."""
    try:
        try:
            return picture(setup, strategy, broker)
        except InvalidInput:
            return picture(setup, strategy)
    except InvalidInput as error:
        return str(error)


def picture(setup: Setup, strategy: str, broker: str = "") -> Picture:
    """`broker`: whose clients are looked at; without one, the first that has any."""
    small = replace(setup, clients=min(setup.clients, max(CLIENTS_MAX, setup.nodes)), duration_s=min(setup.duration_s, SECONDS))
    found = made(small)
    options = {"flood_locations": setup.flood_locations, "field_size_deg": found.field_deg}
    settings = settings_for(strategy, found.work.federation, **options)
    if broker and broker not in settings.federation.by_id:
        raise InvalidInput(f"there is no broker {broker!r}")
    actions = found.work.actions[:ACTIONS_MAX]
    home = broker or _busy(actions) or settings.federation.ids[0]
    ways = _ways(settings, actions, home)
    parts = _PARTS.get(strategy, _plain)(settings, home, actions)
    return Picture(
        home,
        {
            "nodes": [
                _node(node, parts.colors.get(node.id, PLAIN), parts.texts.get(node.id, "")) for node in settings.federation.nodes
            ],
            "links": [*_overlay(settings, parts), *_crossed(ways)],
            "areas": parts.areas,
            "movers": [],
            "fences": _fences(ways.fence),
        },
        [*parts.legend, *_meaning(ways)],
        [parts.says, *_told(home, ways)],
        parts.topics,
    )


# --- what is measured -------------------------------------------------------------------------------------------------------


def _busy(actions: Iterable[Action]) -> str:
    """The broker whose clients publish and subscribe most."""
    counts = Counter(action.node for action in actions if isinstance(action.do, m.Publish))
    subscribing = {action.node for action in actions if isinstance(action.do, m.Subscribe)}
    return max(counts, key=lambda node: (node in subscribing, counts[node]), default="")


def _ways(settings: Settings, actions: Sequence[Action], home: str) -> _Ways:
    """What one subscription and one notification of that broker's clients cross, when all others have theirs in place."""
    subscribe = next((action for action in actions if action.node == home and isinstance(action.do, m.Subscribe)), None)
    publish = next((action for action in actions if action.node == home and isinstance(action.do, m.Publish)), None)
    simulator = Simulator(settings)
    for action in actions:
        if action is not subscribe and not isinstance(action.do, m.Publish):
            simulator.request(action.at_ms, action.node, action.do)
    simulator.run()
    crossed = [_crossing(simulator, action) for action in (subscribe, publish)]
    fences = (action.do for action in (publish, subscribe) if action is not None)
    fence = next((one for do in fences if (one := _fence(do)) is not None), None)
    return _Ways(crossed[0], crossed[1], fence, len(simulator.delivered))


def _crossing(simulator: Simulator, action: Action | None) -> set[tuple[str, str]]:
    if action is None:
        return set()
    before = Counter(simulator.by_link)
    simulator.request(simulator.now_ms + PAUSE_MS, action.node, action.do)
    simulator.run()
    return set(simulator.by_link - before)


def _fence(do: m.Request) -> Geofence | None:
    geofence = (
        do.notification.geofence
        if isinstance(do, m.Publish)
        else do.subscription.geofence
        if isinstance(do, m.Subscribe)
        else None
    )
    return geofence if isinstance(geofence, Circle | Polygon) else None


def _fences(geofence: Geofence | None) -> list[dict[str, Any]]:
    shape: Any
    if isinstance(geofence, Circle):
        shape = shapely.Point(geofence.lon, geofence.lat).buffer(geofence.radius_deg, quad_segs=CIRCLE_POINTS // 4)
    elif isinstance(geofence, Polygon):
        shape = geofence.shape
    else:
        return []
    return [{"id": "geofence", "rings": _rings(shape), "color": NOTIFIES, "text": "geofence"}]


def _crossed(ways: _Ways) -> list[dict[str, Any]]:
    links = []
    for a, b in sorted(ways.subscribing | ways.notifying):
        is_both = (a, b) in ways.subscribing and (a, b) in ways.notifying
        links.append(
            {
                "from": a,
                "to": b,
                "off": False,
                "color": BOTH if is_both else SUBSCRIBES if (a, b) in ways.subscribing else NOTIFIES,
            }
        )
    return links


def _meaning(ways: _Ways) -> list[tuple[str, str]]:
    both = ways.subscribing & ways.notifying
    found = [
        (SUBSCRIBES, "the subscription goes here", ways.subscribing - both),
        (NOTIFIES, "the notification goes here", ways.notifying - both),
        (BOTH, "both go here", both),
    ]
    return [(color, text) for color, text, links in found if links]


def _told(home: str, ways: _Ways) -> list[str]:
    def crosses(links: set[tuple[str, str]]) -> str:
        return f"crosses {len(links)} link{'s' * (len(links) != 1)}" if links else "goes nowhere else"

    reached = f" It reaches {ways.delivered} subscriber{'s' * (ways.delivered != 1)}." if ways.notifying or ways.delivered else ""
    return [
        f"One subscription of a client of {home} {crosses(ways.subscribing)}.",
        f"One notification of a client of {home} {crosses(ways.notifying)}.{reached}",
    ]


# --- how a strategy divides the brokers -------------------------------------------------------------------------------------


class _Parts(Struct, frozen=True, kw_only=True):
    says: str
    colors: dict[str, str] = {}
    texts: dict[str, str] = {}
    legend: list[tuple[str, str]] = []
    areas: list[dict[str, Any]] = []
    links: list[tuple[str, str]] = []
    topics: list[tuple[str, str]] = []


_SAYS: Final = {
    "flood-events": "Every notification goes to every broker; each matches it for its own clients.",
    "flood-subscriptions": "Every subscription goes to every broker; the publisher's broker matches, and tells who has matches.",
}


def _plain(settings: Settings, home: str, actions: Sequence[Action]) -> _Parts:
    del actions
    return _Parts(says=_SAYS.get(settings.strategy, ""), colors={home: COLORS[0]})


def _areas(settings: Settings, home: str, actions: Sequence[Action]) -> _Parts:
    """Each field in the colour of the broker that owns it."""
    del actions
    step = max(settings.field_size_deg, AREA_STEP_DEG)
    boxes: dict[str, list[shapely.Polygon]] = {}
    for row in range(round(180 / step)):
        south = row * step - 90.0
        for column in range(round(360 / step)):
            west = column * step - 180.0
            owner = settings.areas.owner(south + step / 2, west + step / 2)
            boxes.setdefault(owner, []).append(shapely.box(west, south, west + step, south + step))
    colors = {node: COLORS[i % len(COLORS)] for i, node in enumerate(settings.federation.ids)}
    areas = [
        {"id": node, "rings": _rings(shapely.union_all(found)), "color": colors[node]} for node, found in sorted(boxes.items())
    ]
    near = "subscribers" if settings.strategy == "geo-subscriber" else "publishers"
    sent = (
        "A notification goes to the brokers whose area its geofence touches"
        if near == "subscribers"
        else ("A subscription goes to the brokers whose area its geofence touches")
    )
    fields = f"fields of {settings.field_size_deg:g} degrees"
    return _Parts(
        says=f"Each broker has an area, of {fields} that are nearest to it. {sent}: it is matched near {near}.",
        colors=colors,
        areas=areas,
        texts={home: "chosen"},
    )


def _grid(settings: Settings, home: str, actions: Sequence[Action]) -> _Parts:
    del actions
    rows = settings.grid_rows
    colors = {node: COLORS[i % len(COLORS)] for i, row in enumerate(rows) for node in row}
    texts = {node: f"row {i}, column {j}" for i, row in enumerate(rows, 1) for j, node in enumerate(row, 1)}
    legend = [(COLORS[i % len(COLORS)], f"row {i + 1}: {len(row)} brokers") for i, row in enumerate(rows)]
    says = (
        f"The brokers stand in a grid of {len(rows)} rows and {len(rows[0])} columns; {home} is in {texts[home]}. What is said "
        "goes to the own row and column: any two of these meet."
    )
    return _Parts(says=says, colors=colors, texts=texts, legend=legend)


def _groups(settings: Settings, home: str, actions: Sequence[Action]) -> _Parts:
    del home, actions
    colors: dict[str, str] = {settings.cloud: PLAIN}
    texts: dict[str, str] = {settings.cloud: "the cloud: holds every subscription"}
    links: list[tuple[str, str]] = []
    for i, group in enumerate(settings.groups):
        texts[group.leader] = f"leads group {i + 1}"
        colors[group.leader] = COLORS[i % len(COLORS)]
        links.append((group.leader, settings.cloud))
        for member in group.members:
            texts[member], colors[member] = f"in group {i + 1} of {group.leader}", COLORS[i % len(COLORS)]
            links.append((member, group.leader))
    legend = [
        (COLORS[i % len(COLORS)], f"{group.leader} leads {len(group.members) + 1}") for i, group in enumerate(settings.groups)
    ]
    says = (
        f"The brokers form {len(settings.groups)} groups of near ones. Within a group every notification goes to all; between "
        "groups the cloud decides, which holds all subscriptions."
    )
    return _Parts(says=says, colors=colors, texts=texts, legend=legend, links=links)


def _hashed(settings: Settings, home: str, actions: Sequence[Action]) -> _Parts:
    names: dict[str, None] = {}
    for action in actions:
        if isinstance(action.do, m.Publish):
            notification = action.do.notification
            names |= dict.fromkeys(
                notification.types if notification.topic is None else (notification.topic, *notification.types)
            )
    topics = [(name, settings.hashed(name)) for name in sorted(names)[:TOPICS_MAX]]
    texts: dict[str, str] = {}
    for name, owner in topics:
        texts[owner] = f"{texts[owner]}, {name}" if owner in texts else f"matches {name}"
    colors = dict.fromkeys(texts, COLORS[2]) | {home: COLORS[0]}
    says = (
        f"Each topic or type is hashed to one broker, where all about it is matched: {len(topics)} of this workload, at "
        f"{len(texts)} broker{'s' * (len(texts) != 1)}."
    )
    return _Parts(says=says, colors=colors, texts=texts, topics=topics, legend=[(COLORS[2], "has topics to match")])


def _scoped(settings: Settings, home: str, actions: Sequence[Action]) -> _Parts:
    del actions
    anchor = settings.anchor("")
    says = (
        "Notifications and subscriptions travel hop by hop within the areas of their scopes; what states no scope, along a tree "
        f"to {anchor}."
    )
    return _Parts(
        says=says, colors={home: COLORS[0], anchor: COLORS[2]}, texts={anchor: "the anchor"}, legend=[(COLORS[2], "the anchor")]
    )


def _advertised(settings: Settings, home: str, actions: Sequence[Action]) -> _Parts:
    communities = sorted({node.community for node in settings.federation.nodes})
    colors = {node.id: COLORS[communities.index(node.community) % len(COLORS)] for node in settings.federation.nodes}
    offering = {action.node for action in actions if isinstance(action.do, m.Advertise | m.Publish)}
    says = (
        "Producers advertise what they have, and offers travel along links, as far as export rules let them; subscriptions go "
        f"to providers only. {len(offering)} brokers have something to offer; {home} is looked at."
    )
    return _Parts(says=says, colors=colors)


_PARTS: Final = {
    "geo-subscriber": _areas,
    "geo-publisher": _areas,
    "grid-quorum": _grid,
    "broadcast-groups": _groups,
    "dht": _hashed,
    "scoped": _scoped,
    "advertised": _advertised,
}


def _node(node: Any, color: str, text: str) -> dict[str, Any]:
    place = node.location
    said = "\n".join(part for part in (node.id, node.community, text) if part)
    return {"id": node.id, "lon": place.lon, "lat": place.lat, "color": color, "away": False, "text": said}


def _overlay(settings: Settings, parts: _Parts) -> list[dict[str, Any]]:
    """The links that there are, thin; of a mesh, where everyone is linked, only those that the strategy speaks of."""
    federation = settings.federation
    pairs = {(min(link.source, link.target), max(link.source, link.target)) for link in federation.links}
    shown = parts.links or (sorted(pairs) if not federation.is_mesh and len(pairs) <= OVERLAY_MAX else [])
    return [{"from": a, "to": b, "off": True} for a, b in shown]


def _rings(shape: Any) -> list[list[list[float]]]:
    polygons = shape.geoms if hasattr(shape, "geoms") else [shape]
    return [[[x, y] for x, y in ring.coords] for polygon in polygons for ring in (polygon.exterior, *polygon.interiors)]
