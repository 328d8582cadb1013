"""Context-based data distribution (DisGB): publishers that stay where they are know the area in which each event matters;
subscribers walk about, say often where they are, ask once for everything of a topic, and renew that rarely.

Two clients of three are publishers; of these, one in ten makes announcements, for larger areas, and the others measure
temperature.
"""

from __future__ import annotations

from random import Random

from hanse.model import Advertisement, Circle, Location, Notification, Selector, Subscription
from hanse.routing.messages import Advertise, Locate, Publish, Subscribe
from hanse.simulation.actions import Action
from hanse.simulation.workloads.base import WARM_UP_MS, Diary, Load, Workload, client_names, in_time_order
from hanse.simulation.workloads.experiment import circles_for
from hanse.simulation.workloads.positions import FIELD_DEG, KM_PER_DEG, Areas, Region, step

EVENT_GAP_MS = (10_000, 60_000)
STEP_MS = (5_000, 30_000)
SPEEDS_KMH = (2, 3, 4, 5, 6, 7)
ANNOUNCER_PROBABILITY = 0.1
RENEWAL_PROBABILITY = 0.05
TEMPERATURE_RADIUS_KM = (1.0, 25.0)
ANNOUNCEMENT_RADIUS_KM = (10.0, 100.0)


def context(
    load: Load,
    *,
    temperature_radius_km: tuple[float, float] = TEMPERATURE_RADIUS_KM,
    announcement_radius_km: tuple[float, float] = ANNOUNCEMENT_RADIUS_KM,
    renewal_probability: float = RENEWAL_PROBABILITY,
    field_deg: float | None = FIELD_DEG,
    advertise: bool = False,
) -> Workload:
    """Radii from and to; `renewal_probability`: that a subscriber renews a subscription when it has walked a stretch."""
    random = Random(load.seed)
    actions: list[Action] = []
    areas = Areas(load.federation, field_deg=field_deg, circles=circles_for(load.federation, "context", field_deg))
    regions = {node: areas.region(node) for node in load.federation.ids}
    for i, (node, client) in enumerate(client_names(load.federation, load.clients)):
        diary = Diary(actions, node, client, 0)
        here = areas.draw(node, random)
        if i % 3 < 2:
            announces = random.random() < ANNOUNCER_PROBABILITY
            topic, radius_km = ("announcement", announcement_radius_km) if announces else ("temperature", temperature_radius_km)
            if advertise:
                diary.add(
                    0, Advertise(Advertisement(id=f"{client}/publishes", client=client, selectors=(Selector(topic=topic),)))
                )
            _tell(diary, load.duration_ms, here, topic=topic, radius_km=radius_km, random=random)
        else:
            _walk(diary, load.duration_ms, here, inside=regions[node], renewal_probability=renewal_probability, random=random)
    return Workload(
        "context",
        load.federation,
        in_time_order(actions),
        "event geofences only, mobile subscribers (context-based data of DisGB)",
    )


def _tell(diary: Diary, end_ms: int, here: Location, *, topic: str, radius_km: tuple[float, float], random: Random) -> None:
    client = diary.client
    now_ms = min(WARM_UP_MS, end_ms)
    diary.add(random.randrange(now_ms), Locate(diary.client, here))
    while now_ms <= end_ms:
        attributes = (
            {"temperature": round(random.uniform(-10.0, 35.0), 1)}
            if topic == "temperature"
            else {"severity": random.randrange(1, 6)}
        )
        event = Notification(
            id=f"{client}@{now_ms}",
            publisher=client,
            topic=topic,
            attributes=attributes,
            location=here,
            geofence=Circle(here.lat, here.lon, random.uniform(*radius_km) / KM_PER_DEG),
            published_at_ms=now_ms,
        )
        diary.add(now_ms, Publish(event))
        now_ms += random.randrange(*EVENT_GAP_MS)
    diary.add(end_ms, Locate(diary.client, here))


def _walk(diary: Diary, end_ms: int, here: Location, *, inside: Region, renewal_probability: float, random: Random) -> None:
    client, heading_deg = diary.client, random.uniform(0.0, 360.0)
    wanted = {
        topic: Subscribe(Subscription(id=f"{client}/{topic}", client=client, selectors=(Selector(topic=topic),)))
        for topic in ("temperature", "announcement")
    }
    now_ms = min(WARM_UP_MS, end_ms)
    begin_ms = random.randrange(now_ms)
    diary.add(begin_ms, Locate(diary.client, here))
    diary.add(begin_ms + 1, wanted["temperature"])
    diary.add(begin_ms + 2, wanted["announcement"])
    while now_ms <= end_ms:
        diary.add(now_ms, Locate(diary.client, here))
        if random.random() < renewal_probability:
            diary.add(now_ms + 1, wanted["temperature"])
        travel_ms = random.randrange(*STEP_MS)
        here = step(here, random.choice(SPEEDS_KMH) * travel_ms / 3_600_000, heading_deg, inside, random)
        now_ms += travel_ms
    diary.add(end_ms, Locate(diary.client, here))
