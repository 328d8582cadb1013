"""Local messaging between hikers (DisGB): clients on the move, who subscribe and publish around where they are.

Two variants of the authors'. Their simulation has few and large geofences, 5 topics of 1,000 for each client, and rests that
grow longer as time goes by. Their experiment has two topics, small geofences, and a subscription renewed after every 50 metres;
the one to text messages stays where the client started.
"""

from __future__ import annotations

from random import Random
from typing import Literal

from hanse.model import Advertisement, Circle, InvalidInput, Location, Notification, Selector, Subscription, half_chord_squared
from hanse.routing.messages import Advertise, Locate, Publish, Subscribe
from hanse.simulation.actions import Action
from hanse.simulation.workloads.base import WARM_UP_MS, Diary, Load, Workload, client_names, in_time_order
from hanse.simulation.workloads.experiment import circles_for
from hanse.simulation.workloads.positions import FIELD_DEG, KM_PER_DEG, Areas, Region, haversine_of_km, step

SIMULATION_SPEED_KMH = (50.0, 100.0)
SIMULATION_WARM_UP_MS = 50_000
SIMULATION_REST_MS = 60_000
SIMULATION_PAUSE_MS = 1_000
EVENTS_PER_RENEWAL = 5

EXPERIMENT_SPEEDS_KMH = (2, 3, 4, 5, 6, 7)
EXPERIMENT_STEP_MS = (5_000, 30_000)
RENEWAL_KM = 0.05
ROAD_RADIUS_DEG = 0.5 / KM_PER_DEG
TEXT_RADIUS_DEG = (1.0 / KM_PER_DEG, 50.0 / KM_PER_DEG)
ROAD_PROBABILITY = 0.1
TEXT_PROBABILITY = 0.5


def hiking(
    load: Load,
    *,
    preset: Literal["simulation", "experiment"] = "simulation",
    topics: int = 1000,
    topics_per_client: int = 5,
    event_radius_deg: float = 5.0,
    subscription_radius_deg: float = 10.0,
    field_deg: float | None = FIELD_DEG,
    advertise: bool = False,
) -> Workload:
    """`topics` and the radii are the simulation's; the experiment's are fixed. `advertise`: they say first what they publish."""
    random = Random(load.seed)
    actions: list[Action] = []
    if preset == "experiment":
        areas = Areas(load.federation, field_deg=field_deg, circles=circles_for(load.federation, "hiking", field_deg))
        regions = {node: areas.region(node) for node in load.federation.ids}
        for node, client in client_names(load.federation, load.clients):
            diary = Diary(actions, node, client, 0)
            if advertise:
                diary.add(0, _advertise(client, ["road", "text"]))
            _hike_of_experiment(diary, load.duration_ms, areas.draw(node, random), regions[node], random)
    elif preset == "simulation":
        if not 1 <= topics_per_client <= topics:
            raise InvalidInput(f"a client cannot have {topics_per_client} of {topics} topics")
        areas = Areas(load.federation, field_deg=field_deg)
        regions = {node: areas.region(node) for node in load.federation.ids}
        radii = (event_radius_deg, subscription_radius_deg)
        for node, client in client_names(load.federation, load.clients):
            diary = Diary(actions, node, client, 0)
            mine = [f"t-{i}" for i in random.sample(range(topics), topics_per_client)]
            if advertise:
                diary.add(0, _advertise(client, mine))
            here = areas.draw(node, random)
            _hike_of_simulation(diary, load.duration_ms, here, inside=regions[node], topics=mine, radii=radii, random=random)
    else:
        raise InvalidInput(f"hiking has no preset {preset!r}; take simulation or experiment")
    return Workload(
        "hiking", load.federation, in_time_order(actions), f"mobile clients with geofences around themselves, {preset} of DisGB"
    )


def _hike_of_simulation(
    diary: Diary,
    end_ms: int,
    here: Location,
    *,
    inside: Region,
    topics: list[str],
    radii: tuple[float, float],
    random: Random,
) -> None:
    event_radius_deg, subscription_radius_deg = radii
    client, heading_deg = diary.client, random.uniform(0.0, 360.0)
    warm_up_ms = min(SIMULATION_WARM_UP_MS, end_ms // 18)  # 50 s in 15 minutes
    now_ms = random.randrange(1, max(2, warm_up_ms))
    diary.add(now_ms, Locate(diary.client, here))
    now_ms += warm_up_ms
    count = 0
    while now_ms < end_ms:
        if count % EVENTS_PER_RENEWAL == 0:
            diary.add(now_ms, Locate(diary.client, here))
            now_ms += SIMULATION_PAUSE_MS
            geofence = Circle(here.lat, here.lon, subscription_radius_deg)
            for topic in topics:
                diary.add(now_ms, _subscribe(client, topic, geofence))
                now_ms += 1
            now_ms += SIMULATION_PAUSE_MS
        topic = topics[int(random.random() * len(topics))]
        diary.add(now_ms, _publish(client, now_ms, topic, here, event_radius_deg))
        now_ms += 1 + SIMULATION_PAUSE_MS
        # the authors draw up to the time that has passed and a minute, so that rests grow longer
        rest_ms = random.randrange(1, now_ms + SIMULATION_REST_MS)
        now_ms += rest_ms
        km = random.uniform(*SIMULATION_SPEED_KMH) * rest_ms / 3_600_000
        here = step(here, km, heading_deg, inside, random, widening_deg=1.0)
        count += 1


def _hike_of_experiment(diary: Diary, end_ms: int, here: Location, inside: Region, random: Random) -> None:
    client, heading_deg = diary.client, random.uniform(0.0, 360.0)
    around_start = Circle(here.lat, here.lon, random.uniform(*TEXT_RADIUS_DEG))
    far_enough = haversine_of_km(RENEWAL_KM)
    warm_up_ms = min(WARM_UP_MS, end_ms)
    now_ms = random.randrange(warm_up_ms)

    def renew() -> None:
        diary.add(now_ms + 1, _subscribe(client, "road", Circle(here.lat, here.lon, ROAD_RADIUS_DEG)))
        diary.add(now_ms + 2, _subscribe(client, "text", around_start))

    diary.add(now_ms, Locate(diary.client, here))
    renew()
    renewed_at = here
    now_ms = warm_up_ms
    while now_ms <= end_ms:
        diary.add(now_ms, Locate(diary.client, here))
        if half_chord_squared(here.lat, here.lon, renewed_at.lat, renewed_at.lon) >= far_enough:
            renew()
            renewed_at = here
        if random.random() < ROAD_PROBABILITY:
            diary.add(now_ms + 3, _publish(client, now_ms + 3, "road", here, ROAD_RADIUS_DEG))
        if random.random() < TEXT_PROBABILITY:
            diary.add(now_ms + 4, _publish(client, now_ms + 4, "text", here, random.uniform(*TEXT_RADIUS_DEG)))
        travel_ms = random.randrange(*EXPERIMENT_STEP_MS)
        here = step(here, random.choice(EXPERIMENT_SPEEDS_KMH) * travel_ms / 3_600_000, heading_deg, inside, random)
        now_ms += travel_ms
    diary.add(end_ms, Locate(diary.client, here))


def _advertise(client: str, topics: list[str]) -> Advertise:
    return Advertise(
        Advertisement(id=f"{client}/publishes", client=client, selectors=tuple(Selector(topic=topic) for topic in topics))
    )


def _subscribe(client: str, topic: str, geofence: Circle) -> Subscribe:
    return Subscribe(Subscription(id=f"{client}/{topic}", client=client, selectors=(Selector(topic=topic),), geofence=geofence))


def _publish(client: str, at_ms: int, topic: str, here: Location, radius_deg: float) -> Publish:
    return Publish(
        Notification(
            id=f"{client}@{at_ms}",
            publisher=client,
            topic=topic,
            location=here,
            geofence=Circle(here.lat, here.lon, radius_deg),
            published_at_ms=at_ms,
        )
    )
