"""Capsules: small programs that make context of context, with the quality of what they make.

| category | here | what it makes |
| --- | --- | --- |
| aggregation | `Aggregation` | statistics of windows, for each entity, scope or cell |
| filtering | `Filtering` | what is good enough |
| fusion | `Fusion` | one value of several sensors, weighted by quality |
| inference | `AirQuality`, `Arrival`, `Occupancy`, `Outliers`, `Learned` | an index, times, people, anomalies |
| your own | a `Gathering` with `infer` | whatever the readings of a window say |

What a capsule is: `hanse.pipeline.capsules.capsule`; how quality comes through: `propagation` and each one's own page. What
one publishes is in the node's log like everything else, so another one can read it: they chain by naming its type.
"""

from __future__ import annotations

from hanse.pipeline.capsules.aggregation import Aggregation
from hanse.pipeline.capsules.air_quality import AirQuality
from hanse.pipeline.capsules.anomaly import Outliers
from hanse.pipeline.capsules.arrival import Arrival, Stop
from hanse.pipeline.capsules.capsule import Capsule, Selector, Transform, published
from hanse.pipeline.capsules.filtering import Filtering
from hanse.pipeline.capsules.fusion import Fusion
from hanse.pipeline.capsules.gathering import Gathering
from hanse.pipeline.capsules.learned import Learned, train
from hanse.pipeline.capsules.occupancy import Occupancy
from hanse.pipeline.capsules.places import Place, Windows
from hanse.pipeline.capsules.screening import Aside
from hanse.pipeline.capsules.values import Inferred, Reading, Span, Value

__all__ = [
    "Aggregation", "AirQuality", "Arrival", "Aside", "Capsule", "Filtering", "Fusion", "Gathering", "Inferred", "Learned",
    "Occupancy", "Outliers", "Place", "Reading", "Selector", "Span", "Stop", "Transform", "Value", "Windows", "published",
    "train",
]  # fmt: skip
