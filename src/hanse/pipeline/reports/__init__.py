"""Applications on a lake: what was promised against what was delivered, where something is high, and who met whom.

- `daily_quality`: of each producer and day, how many publications kept its promise, what was broken, how often they came
  (`hanse report quality`);
- `hot_spots`: places by how high an attribute is there, good observations counting more (`hanse report hotspots`);
- `encounters`: observations of one community, each with the newest of another that is near in time and space
  (`hanse report join`).

All of them read the long form of `hanse.pipeline.observations`; `lake_observations` makes it of a lake that the pipeline or any
other stream has written (`raw`, or else `qualified`).
"""

from __future__ import annotations

from hanse.pipeline.reports.daily import Delivered, ProducerDay, daily_quality
from hanse.pipeline.reports.encounters import Side, encounters
from hanse.pipeline.reports.hot_spots import HotSpot, hot_spots
from hanse.pipeline.reports.promises import Promise, load_promises, promises_of_node
from hanse.pipeline.reports.reading import Days, lake_observations

__all__ = [
    "Days", "Delivered", "HotSpot", "ProducerDay", "Promise", "Side", "daily_quality", "encounters", "hot_spots",
    "lake_observations", "load_promises", "promises_of_node",
]  # fmt: skip
