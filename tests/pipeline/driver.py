"""A pipeline as a process, to be killed: the log of one node into a lake, and a derived entity of each record to another one.

python driver.py SOURCE_URL TARGET_URL FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from hanse.pipeline import register, session
from hanse.pipeline.lake import Lake

BATCH = 40  # records


def main(source: str, target: str, folder: Path) -> None:
    spark = session("to-be-killed", "local[2]", **{"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"})
    register(spark)
    options = {"nodes": f"a={source}", "maxRecordsPerTrigger": str(BATCH), "recordsPerPartition": str(BATCH // 2)}
    stream = spark.readStream.format("hanse").options(**options).load()
    Lake(folder / "lake").write(stream, trigger={"processingTime": "100 milliseconds"})
    derived = stream.selectExpr("concat('urn:derived:', offset) AS id", "'Derived' AS type", "id AS origin")
    writer = derived.writeStream.format("hanse").options(
        node=target, deadLetters=str(folder / "dead"), entitiesPerRequest="7", patience="120"
    )
    writer = writer.option("checkpointLocation", str(folder / "sink")).trigger(processingTime="100 milliseconds")
    writer.start()
    print("ready", flush=True)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
