"""The pipeline's scenario, live: sensors that advertise, buses that tell where they are, and two who ask to be told.

Bob asks for unhealthy streets, with `qualityQ`; somebody else for the same without. Both are told by event streams. At the end a
test alarm goes the same way; once both have heard it, they have heard all before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

import hanse
from bordeaux.context import BOBS_Q, INDEX, LEVEL, is_unhealthy, moment
from bordeaux.index import UNHEALTHY
from bordeaux.measurements import HOUR
from bordeaux.scenario import CLIENTS, until_all
from bordeaux.sensors import SENSORS, scope_of
from bordeaux.streets import STREETS, Report
from hanse.client import NodeClient, Notifications
from hanse.quality import default_registry

TYPE: Final = "StreetAirQuality"  # what pipeline.toml makes
BOBS_QUALITY: Final = "accuracy>=high;completeness>=medium"
LEAST: Final = {"accuracy": "high", "completeness": "medium"}
DRILL: Final = f"urn:ngsi-ld:{TYPE}:drill"
SAME: Final = 1e-5  # percent: two ways to round the same number

LINES: Final = (STREETS, (STREETS[1], STREETS[3]))  # the streets that a bus goes by
FIRST_BUS: Final = timedelta(hours=5)
BUS_EVERY: Final = timedelta(minutes=15)
BATCH: Final = 500  # entities of one request


class Told(Struct, frozen=True, order=True):
    """What someone was told, or should be: which street, of which hour, what, and how good that is."""

    scope: str
    hour: str
    level: str
    index: int
    accuracy: float
    completeness: float


class Outcome(Struct, frozen=True):
    bob: list[Told]
    without_quality: list[Told]


async def listen(url: str, work: Callable[[], Awaitable[None]], heard: Callable[[Told], None] = lambda _: None) -> Outcome:
    """Subscribe twice, do the work, and say what was heard; `heard` is called with what Bob hears, when he does."""
    bob, anyone = Ear(heard), Ear()
    async with (
        hanse.connect(url) as client,
        client.subscribe(type=TYPE, q=BOBS_Q, quality_q=BOBS_QUALITY) as stream,
        client.subscribe(type=TYPE, q=BOBS_Q) as other_stream,
    ):
        following = [asyncio.create_task(bob.follow(stream)), asyncio.create_task(anyone.follow(other_stream))]
        try:
            await advertise(client)
            await work()
            await client.upsert([drill()])
            await until_all(lambda: bob.has_heard_the_drill and anyone.has_heard_the_drill, following)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
        if stream.gaps or other_stream.gaps:
            raise RuntimeError("the node had to drop notifications: a listener was too slow")
    return Outcome(sorted(bob.told), sorted(anyone.told))


class Ear:
    """Notes what it hears, until the test alarm."""

    def __init__(self, heard: Callable[[Told], None] = lambda _: None) -> None:
        self.told: list[Told] = []
        self.has_heard_the_drill = False
        self._heard = heard

    async def follow(self, stream: Notifications) -> None:
        async for notification in stream:
            for data in notification["data"]:
                if data["id"] == DRILL:
                    self.has_heard_the_drill = True
                    continue
                self.told.append(_told(data))
                self._heard(self.told[-1])


def _told(data: dict[str, Any]) -> Told:
    level, until = data[LEVEL], datetime.fromisoformat(data["dateObservedTo"]["value"]["@value"])
    quality = {name: level.get(name, {"value": -1.0})["value"] for name in LEAST}
    return Told(data["scope"], moment(until - HOUR), level["value"], round(data[INDEX]["value"]), **quality)


def drill() -> dict[str, Any]:
    level: dict[str, Any] = {"type": "Property", "value": UNHEALTHY[0]}
    level |= {name: {"type": "Property", "value": 100} for name in LEAST}
    return {"id": DRILL, "type": TYPE, LEVEL: level}


async def advertise(client: NodeClient) -> None:
    """Every sensor is a producer that says what it has and how good that is."""
    for sensor in SENSORS:
        path = f"{CLIENTS}/{quote(f'{sensor.street.slug} {sensor.box}', safe='')}"
        await client.request("PUT", path, json={})
        said = {"selectors": [{"id": sensor.id}], "quality": sensor.promise}
        await client.request("PUT", f"{path}/advertisements/gases", json=said)


# --- what should have been told -----------------------------------------------------------------------------------------


def expected(said: list[Report], *, is_quality_asked: bool) -> list[Told]:
    return sorted(
        Told(
            scope_of(one.street),
            moment(one.statement.hour),
            one.statement.index.level,
            one.statement.index.value,
            *(one.quality[LEVEL].get(name, -1.0) for name in LEAST),
        )
        for one in said
        if is_unhealthy(one) and (is_good_enough(one) or not is_quality_asked)
    )


def is_good_enough(report: Report) -> bool:
    """What Bob asks, of the quality of the level."""
    criteria = default_registry().by_name
    found = {name: report.quality[LEVEL].get(name) for name in LEAST}
    levels = ("medium", "high")
    return all(
        value is not None and criteria[name].definition.level(value) in levels[levels.index(LEAST[name]) :]
        for name, value in found.items()
    )


def differences(who: str, wanted: list[Told], heard: list[Told]) -> Iterator[str]:
    """What is not as it must be, in words: each is told of exactly what is for him, once, as it is."""
    by_hour, by_hour_heard = ({(one.scope, one.hour): one for one in every} for every in (wanted, heard))
    if len(by_hour_heard) < len(heard):
        yield f"{who} heard {len(heard) - len(by_hour_heard)} things twice"
    if missed := by_hour.keys() - by_hour_heard.keys():
        yield f"{who} missed {len(missed)} of {len(wanted)} hours, {_words(min(missed))} among them"
    if extra := by_hour_heard.keys() - by_hour.keys():
        yield f"{who} heard of {len(extra)} hours too many, {_words(min(extra))} among them"
    other = [key for key in sorted(by_hour.keys() & by_hour_heard.keys()) if not _is_same(by_hour[key], by_hour_heard[key])]
    if other:
        yield f"{who} heard {by_hour_heard[other[0]]}, and it should be {by_hour[other[0]]}; so it is with {len(other)} hours"


def _words(key: tuple[str, str]) -> str:
    return f"{key[1]} of {key[0]}"


def _is_same(one: Told, other: Told) -> bool:
    said = (one.level, one.index) == (other.level, other.index)
    return said and all(abs(getattr(one, name) - getattr(other, name)) <= SAME for name in LEAST)


# --- another community --------------------------------------------------------------------------------------------------


def bus_stops(since: datetime, days: int) -> Iterator[dict[str, Any]]:
    """One bus goes round by the four streets, another one between two of them, from five in the morning on; all of it played."""
    for number in range(days):
        today = since.astimezone(UTC) + timedelta(days=number)
        for turn in range(int((timedelta(days=1) - FIRST_BUS) / BUS_EVERY)):
            for bus, line in enumerate(LINES, start=1):
                street = line[turn % len(line)]
                location = {"type": "Point", "coordinates": [round(street.position[0], 6), round(street.position[1] + 0.0004, 6)]}
                at = moment(today + FIRST_BUS + turn * BUS_EVERY)
                place = {"type": "GeoProperty", "value": location, "observedAt": at}
                yield {"id": f"urn:ngsi-ld:Bus:{bus}", "type": "Bus", "location": place}


async def drive(url: str, since: datetime, days: int) -> int:
    """Publish where the buses are, at the node of their own community; how often."""
    every = list(bus_stops(since, days))
    async with hanse.connect(url) as client:
        for first in range(0, len(every), BATCH):
            done = await client.upsert(every[first : first + BATCH])
            if done.errors:
                raise RuntimeError(f"the node refuses a bus: {done.errors[0]}")
    return len(every)
