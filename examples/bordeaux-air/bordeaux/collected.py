"""From the file to the sensors' observations, on Spark: a collector reads it, and each kind of box works in a task of its own.

    found = collect(spark, mapping, str(FILE))
    observations = sensor_observations(found.observations, mapping, since, until)

The mapping says which attribute is which column of the file. What a box makes of the station's hours is `bordeaux.sensors`,
which knows nothing of Spark; its accuracy and its precision are those against the analyser, by the hours before.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from bordeaux.measurements import GASES, Row, in_order
from bordeaux.sensors import BOXES, TYPE, Sensed, sensed
from hanse.pipeline.observations import COLUMNS, SCHEMA, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from hanse.pipeline.mapping import Mapping

UNIT_CODES = {gas.name: gas.unit_code for gas in GASES}


def sensor_observations(station: DataFrame, mapping: Mapping, since: datetime, until: datetime) -> DataFrame:
    """What all sensors publish, in the long form, of what a collector has found at the station."""
    from pyspark.sql import functions as f

    columns = {one.name: one.path for one in mapping.attributes}
    hours = station.where(f.col("value").isNotNull()).groupBy(f.unix_seconds("observed_at").alias("hour"))
    measured = hours.agg(f.map_from_entries(f.collect_list(f.struct("attribute", "value"))).alias("measured"))
    boxes = station.sparkSession.createDataFrame([(box,) for box in BOXES], "box string")
    by_box = measured.crossJoin(boxes).groupBy("box")
    return by_box.applyInArrow(lambda hours: _at_work(hours, columns, since, until), SCHEMA)


def _at_work(hours: pa.Table, columns: dict[str, str], since: datetime, until: datetime) -> pa.Table:
    """In a worker: one kind of box, with all hours of the station."""
    import pyarrow as pa

    box = hours.column("box")[0].as_py()
    rows = in_order(
        Row(datetime.fromtimestamp(hour, since.tzinfo), {columns[name]: value for name, value in measured})
        for hour, measured in zip(hours.column("hour").to_pylist(), hours.column("measured").to_pylist(), strict=True)
    )
    made = [_observation(one) for one in sensed(rows, box, since, until)]
    return pa.Table.from_pylist(made, schema=arrow_schema())


def _observation(one: Sensed) -> dict[str, Any]:
    lon, lat = one.sensor.position
    values = {
        "source": "boxes",
        "entity": one.sensor.id,
        "type": TYPE,
        "attribute": one.gas,
        "value": one.value,
        "unit": UNIT_CODES[one.gas],
        "observed_at": one.hour,
        "accepted_at": one.hour,  # it is taken at once
        "lat": lat,
        "lon": lon,
        "scopes": [one.sensor.scope],
        "quality": list(one.quality.items()),
        "key": f"boxes/{one.sensor.id}/{one.hour:%Y%m%d%H}/{one.gas}",
        "dated": True,
    }
    return {name: values.get(name) for name in COLUMNS}
