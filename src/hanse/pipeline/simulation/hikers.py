"""The DisGB simulation's hikers by the hundred thousand: the workload `hiking`, drawn for many clients at once.

Every client does what `hanse.simulation.workloads.hiking` says, with the same distributions; only the numbers that are drawn
are others, since numpy draws them for whole blocks of clients. A block's numbers depend on the seed and on the block alone, so
that the workload is the same however many workers make it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from hanse.model import EARTH_RADIUS_KM
from hanse.simulation.workloads.hiking import (
    EVENTS_PER_RENEWAL,
    SIMULATION_PAUSE_MS,
    SIMULATION_REST_MS,
    SIMULATION_SPEED_KMH,
    SIMULATION_WARM_UP_MS,
)
from hanse.simulation.workloads.positions import ASIDE_DEG, STEPS_TRIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from hanse.pipeline.simulation.touching import FieldMap

CLIENTS_A_BLOCK: Final = 20_000
LOCATION, SUBSCRIPTION, PUBLICATION = 0, 1, 2
ROUNDS_MAX: Final = 1 << 16  # of one client; each takes a second or more
COLUMNS: Final = "kind int, client long, home int, topic int, at long, seq int, lat double, lon double"


class Hike(Struct, frozen=True):
    """What all hikers share."""

    fields: FieldMap
    clients: tuple[int, ...]  # of each broker
    duration_ms: int
    seed: int
    topics: int = 1000
    topics_per_client: int = 5

    @property
    def blocks(self) -> int:
        return -(-sum(self.clients) // CLIENTS_A_BLOCK)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For Spark's mapInArrow: numbers of blocks in, what their clients do out."""
        for batch in batches:
            for block in batch.column(0).to_pylist():
                yield from self.block(block)

    def block(self, number: int) -> Iterator[pa.RecordBatch]:
        """What the clients of one block do: first all of their first round, then of their second..."""
        first = number * CLIENTS_A_BLOCK
        client = np.arange(first, min(first + CLIENTS_A_BLOCK, sum(self.clients)))
        home = np.searchsorted(np.cumsum(self.clients), client, side="right")
        random = np.random.default_rng([self.seed, number])
        topics = self._topics(len(client), random)
        walk = _Walk(self.fields, home, random)
        warm_up_ms = min(SIMULATION_WARM_UP_MS, self.duration_ms // 18)
        now = random.integers(1, max(2, warm_up_ms), size=len(client))
        every = np.arange(len(client))
        yield _batch(LOCATION, client, home, every * 0, now, 0, walk.lat, walk.lon)
        now += warm_up_ms
        for turn in range(ROUNDS_MAX):
            who = np.flatnonzero(now < self.duration_ms)
            if not len(who):
                return
            lat, lon = walk.lat[who], walk.lon[who]
            if turn % EVENTS_PER_RENEWAL == 0:
                yield _batch(LOCATION, client[who], home[who], who * 0, now[who], turn + 1, lat, lon)
                now[who] += SIMULATION_PAUSE_MS
                asked = np.repeat(who, self.topics_per_client)
                which = np.tile(np.arange(self.topics_per_client), len(who))
                yield _batch(
                    SUBSCRIPTION,
                    client[asked],
                    home[asked],
                    topics[asked, which],
                    now[asked] + which,
                    turn + 1,
                    walk.lat[asked],
                    walk.lon[asked],
                )
                now[who] += self.topics_per_client + SIMULATION_PAUSE_MS
            topic = topics[who, random.integers(self.topics_per_client, size=len(who))]
            yield _batch(PUBLICATION, client[who], home[who], topic, now[who], turn + 1, lat, lon)
            now[who] += 1 + SIMULATION_PAUSE_MS
            rest = random.integers(1, now[who] + SIMULATION_REST_MS)
            now[who] += rest
            walk.on(who, random.uniform(*SIMULATION_SPEED_KMH, size=len(who)) * rest / 3_600_000)
        raise AssertionError

    def _topics(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """For each client different ones, in any order."""
        drawn = random.integers(self.topics, size=(count, self.topics_per_client))
        while True:
            ordered = np.sort(drawn, axis=1)
            again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
            if not len(again):
                return drawn
            drawn[again] = random.integers(self.topics, size=(len(again), self.topics_per_client))


class _Walk:
    """Where clients are; each keeps to the area of its own broker."""

    def __init__(self, fields: FieldMap, home: NDArray[np.int64], random: np.random.Generator) -> None:
        self.fields, self.home, self.random = fields, home, random
        of_broker = np.argsort(fields.owner, kind="stable")
        counts = np.bincount(fields.owner, minlength=int(home.max()) + 1)
        begins = np.cumsum(counts) - counts
        field = of_broker[begins[home] + (random.random(len(home)) * counts[home]).astype(np.int64)]
        self.lat = -90.0 + fields.size_deg * (field // fields.columns + random.random(len(home)))
        self.lon = -180.0 + fields.size_deg * (field % fields.columns + random.random(len(home)))
        self.heading = random.uniform(0.0, 360.0, len(home))

    def on(self, who: NDArray[np.int64], km: NDArray[np.float64]) -> None:
        """A step roughly along the heading; at an edge ever more aside, then back; else one stays."""
        for tried in range(2 * STEPS_TRIED):
            aside = ASIDE_DEG + tried
            bearing = self.heading[who] + self.random.uniform(-aside, aside, len(who))
            lat, lon = _destination(self.lat[who], self.lon[who], km, bearing + (180.0 if tried >= STEPS_TRIED else 0.0))
            inside = self.fields.owners(lat, lon) == self.home[who]
            self.lat[who[inside]], self.lon[who[inside]] = lat[inside], lon[inside]
            who, km = who[~inside], km[~inside]
            if not len(who):
                return


def _destination(
    lat: NDArray[np.float64], lon: NDArray[np.float64], km: NDArray[np.float64], bearing_deg: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where one comes to along the great circle."""
    phi, angle, bearing = np.radians(lat), km / EARTH_RADIUS_KM, np.radians(bearing_deg)
    sin_to = np.clip(np.sin(phi) * np.cos(angle) + np.cos(phi) * np.sin(angle) * np.cos(bearing), -1.0, 1.0)
    east = np.arctan2(np.sin(bearing) * np.sin(angle) * np.cos(phi), np.cos(angle) - np.sin(phi) * sin_to)
    return np.degrees(np.arcsin(sin_to)), (lon + np.degrees(east) + 180.0) % 360.0 - 180.0


def _batch(
    kind: int,
    client: NDArray[np.int64],
    home: NDArray[np.int64],
    topic: NDArray[np.int64],
    at: NDArray[np.int64],
    seq: int,
    lat: NDArray[np.float64],
    lon: NDArray[np.float64],
) -> pa.RecordBatch:
    import pyarrow as pa

    ones = np.ones(len(client), dtype=np.int32)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ones * np.int32(kind)),
            pa.array(client.astype(np.int64)),
            pa.array(home.astype(np.int32)),
            pa.array(topic.astype(np.int32)),
            pa.array(at.astype(np.int64)),
            pa.array(ones * np.int32(seq)),
            pa.array(lat.copy()),
            pa.array(lon.copy()),
        ],
        names=["kind", "client", "home", "topic", "at", "seq", "lat", "lon"],
    )
