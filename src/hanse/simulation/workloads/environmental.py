"""Open environmental data (DisGB): sensors that stay where they are and publish to the whole world, and subscribers that each
ask for what is measured around them, in circles of any size. A subscriber now and then moves elsewhere and asks anew.

Two clients of three are sensors.
"""

from __future__ import annotations

from random import Random
from typing import Final

from hanse.model import Advertisement, Circle, Location, Notification, Selector, Subscription
from hanse.routing.messages import Advertise, Locate, Publish, Subscribe
from hanse.simulation.actions import Action
from hanse.simulation.workloads.base import WARM_UP_MS, Diary, Load, Workload, client_names, in_time_order
from hanse.simulation.workloads.experiment import circles_for
from hanse.simulation.workloads.positions import FIELD_DEG, KM_PER_DEG, Areas, Region, step

READING_GAP_MS = (5_000, 15_000)
CHECK_GAP_MS = (3_000, 6_000)
MOVE_PROBABILITY = 0.1
MOVE_KM = (0.5, 100.0)
RADIUS_KM = (1.0, 100.0)
MEASURES: Final = {"temperature": (-10.0, 35.0), "humidity": (20.0, 100.0), "barometric_pressure": (970.0, 1040.0)}


def environmental(
    load: Load,
    *,
    radius_km: tuple[float, float] = RADIUS_KM,
    move_probability: float = MOVE_PROBABILITY,
    field_deg: float | None = FIELD_DEG,
    advertise: bool = False,
) -> Workload:
    """`radius_km`: from and to; `move_probability`: that a subscriber moves at one of its checks, which are some 4.5 s apart."""
    random = Random(load.seed)
    actions: list[Action] = []
    areas = Areas(load.federation, field_deg=field_deg, circles=circles_for(load.federation, "environmental", field_deg))
    regions = {node: areas.region(node) for node in load.federation.ids}
    for i, (node, client) in enumerate(client_names(load.federation, load.clients)):
        diary = Diary(actions, node, client, 0)
        here = areas.draw(node, random)
        if i % 3 < 2:
            _sense(diary, load.duration_ms, here, random, advertise=advertise)
        else:
            _watch(
                diary,
                load.duration_ms,
                here,
                inside=regions[node],
                radius_km=radius_km,
                move_probability=move_probability,
                random=random,
            )
    return Workload(
        "environmental", load.federation, in_time_order(actions), "stationary sensors, no event geofences (open data of DisGB)"
    )


def _sense(diary: Diary, end_ms: int, here: Location, random: Random, *, advertise: bool) -> None:
    client, topic = diary.client, random.choice(list(MEASURES))
    if advertise:
        diary.add(0, Advertise(Advertisement(id=f"{client}/publishes", client=client, selectors=(Selector(topic=topic),))))
    now_ms = min(WARM_UP_MS, end_ms)
    diary.add(random.randrange(now_ms), Locate(diary.client, here))
    while now_ms <= end_ms:
        value = round(random.uniform(*MEASURES[topic]), 1)
        reading = Notification(
            id=f"{client}@{now_ms}",
            publisher=client,
            topic=topic,
            attributes={topic: value},
            location=here,
            published_at_ms=now_ms,
        )
        diary.add(now_ms, Publish(reading))
        now_ms += random.randrange(*READING_GAP_MS)
    diary.add(end_ms, Locate(diary.client, here))


def _watch(
    diary: Diary,
    end_ms: int,
    here: Location,
    *,
    inside: Region,
    radius_km: tuple[float, float],
    move_probability: float,
    random: Random,
) -> None:
    client = diary.client

    def subscribe(at_ms: int) -> None:
        for i, topic in enumerate(MEASURES, start=1):
            geofence = Circle(here.lat, here.lon, random.uniform(*radius_km) / KM_PER_DEG)
            subscription = Subscription(
                id=f"{client}/{topic}", client=client, selectors=(Selector(topic=topic),), geofence=geofence
            )
            diary.add(at_ms + i, Subscribe(subscription))

    now_ms = min(WARM_UP_MS, end_ms)
    begin_ms = random.randrange(now_ms)
    diary.add(begin_ms, Locate(diary.client, here))
    subscribe(begin_ms)
    while now_ms <= end_ms:
        if random.random() < move_probability:
            # its location is not told: no event has a geofence that it could lie in
            here = step(here, random.uniform(*MOVE_KM), random.uniform(0.0, 360.0), inside, random)
            subscribe(now_ms)
        now_ms += random.randrange(*CHECK_GAP_MS)
    diary.add(end_ms, Locate(diary.client, here))
