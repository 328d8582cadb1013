"""The data pipeline on Spark: what the federation's nodes log, read, kept, refined and published back.

Nothing here needs the rest of Hanse to be running in the same process, and nothing outside this package needs PySpark.

- `session(app, master)`: a Spark session that is quiet and set up for this machine; `words(error)`: its errors in one line;
- `register(spark)`: makes the format "hanse" known: `spark.readStream.format("hanse")` (options in `hanse.pipeline.source`),
  `writeStream.format("hanse")` (options in `hanse.pipeline.sink`);
- `hanse.pipeline.schema`: the columns of a record, and how the open part is reached;
- `hanse.pipeline.lake.Lake(folder)`: tables of Parquet files that streams write and SQL reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.pipeline.session import session
from hanse.pipeline.words import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session", "words"]


def register(spark: SparkSession) -> None:
    """Make the format "hanse" known to a session."""
    from hanse.pipeline.source import HanseDataSource

    spark.dataSource.register(HanseDataSource)
