"""The same examples every time, so that a red test is always about the change; `HANSE_EXPLORE=1 make test` looks for new ones."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

SPARK = "tests/pipeline/"

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("explore" if os.environ.get("HANSE_EXPLORE") else "fixed")


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """Tests go to whichever worker is free; those on Spark all to the same one, so that there is one JVM."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark:
    return OneSpark(config, log)
