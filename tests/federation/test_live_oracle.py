"""A federation of real processes delivers exactly what the oracle says, while nodes are killed and links are cut.

`make faults-live` runs all strategies for longer.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hanse.routing import STRATEGIES
from tests.federation.live import run

ROUNDS = int(os.environ.get("HANSE_ROUNDS", "0"))  # 0: a short run of a few strategies
SEED = int(os.environ.get("HANSE_SEED", "1"))


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("scoped", "geo-publisher")]


@pytest.mark.parametrize("strategy", list(STRATEGIES) if ROUNDS else ["advertised", *LONG])
def test_what_the_oracle_names_arrives_once_whatever_breaks(strategy: str, tmp_path: Path) -> None:
    counts = asyncio.run(run(tmp_path, strategy, SEED, rounds=ROUNDS or 2, kills=2, cuts=3))
    print(strategy, dict(counts))
    assert counts["kills"] >= 2
    assert counts["deliveries"] > counts["kills"]
