"""One Spark session for all tests of the pipeline; `tests/conftest.py` sees to it that one worker runs them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import hanse as hanse  # noqa: PLC0414  the command, as a fixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from hanse.pipeline import session

    made = session(
        "hanse-tests",
        "local[2]",
        **{
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # half the time to start
            "spark.sql.shuffle.partitions": 2,
        },
    )
    yield made
    made.stop()
