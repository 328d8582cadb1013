"""Learned: what a value should be at this time and place, by a model that MLlib has learned from the lake, and how far off it is.

    model = train(observations(lake.table(spark, "raw")), "no2", "models/no2")      # once a week, say
    Capsule(..., transform=Learned("no2", "models/no2"), ...)

The model is a linear regression on the time of day (two harmonics), the day being one of the weekend, and the position. A
fifth of the past, chosen by its keys, is held back: how far the model is off there says how good it is. A value that is
further off than `limit` times that is an anomaly.

**Quality.** `accuracy` of the expected value and of the deviation: 100 less the root mean square error in percent of the span
of the held-back values, times the accuracy that the value itself states. Others: that of the value. Freshness: the value's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.capsules.capsule import Made
from hanse.pipeline.capsules.propagation import scaled
from hanse.pipeline.capsules.values import Inferred, Value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OBSERVATIONS_MIN: Final = 50
HELD_BACK: Final = 5  # one of so many
ABOUT: Final = "about.json"
FEATURES: Final = ("sin1", "cos1", "sin2", "cos2", "weekend", "lat", "lon")
ACCURACY: Final = "accuracy"


class Trained(Struct, frozen=True):
    """What is known of a model: beside it in its folder."""

    attribute: str
    observations: int
    error: float  # root mean square, of what was held back
    span: float
    accuracy: float  # percent


def _featured(observations: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    turn = (f.unix_micros("observed_at") / f.lit(1e6) % 86_400) / 86_400 * (2 * 3.141592653589793)
    columns: dict[str, Column] = {
        "sin1": f.sin(turn),
        "cos1": f.cos(turn),
        "sin2": f.sin(2 * turn),
        "cos2": f.cos(2 * turn),
        "weekend": (f.weekday("observed_at") >= 5).cast("double"),
        "lat": f.coalesce("lat", f.lit(0.0)),
        "lon": f.coalesce("lon", f.lit(0.0)),
    }
    return observations.withColumns({f"f_{name}": column for name, column in columns.items()})


def train(observations: DataFrame, attribute: str, folder: str | Path) -> Trained:
    """Learn from a batch of observations; the model and what is known of it are in the folder afterwards."""
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression
    from pyspark.sql import functions as f

    of_it = _featured(observations.where((f.col("attribute") == attribute) & f.col("value").isNotNull())).cache()
    held = f.pmod(f.xxhash64("key"), f.lit(HELD_BACK)) == 0
    number = of_it.count()
    if number < OBSERVATIONS_MIN:
        raise InvalidInput(f"there are {number} observations of {attribute} to learn from; {OBSERVATIONS_MIN} are needed")
    gather = VectorAssembler(inputCols=[f"f_{name}" for name in FEATURES], outputCol="features")
    line = LinearRegression(featuresCol="features", labelCol="value", predictionCol="expected", regParam=1e-6, solver="normal")
    model = Pipeline(stages=[gather, line]).fit(of_it.where(~held))
    off = f.col("value") - f.col("expected")
    row = (
        model.transform(of_it.where(held))
        .agg(f.sqrt(f.avg(off * off)).alias("error"), (f.max("value") - f.min("value")).alias("span"))
        .collect()[0]
    )
    of_it.unpersist()
    if not row["span"]:
        raise InvalidInput(f"{attribute} is the same wherever it was held back; nothing can be said of how good a model of it is")
    accuracy = max(0.0, 100.0 * (1 - row["error"] / row["span"]))
    trained = Trained(attribute, number, float(row["error"]), float(row["span"]), accuracy)
    model.write().overwrite().save(str(Path(folder).absolute()))
    Path(folder, ABOUT).write_bytes(msgspec.json.encode(trained))
    return trained


class Learned(Struct, frozen=True):
    category: ClassVar[str] = "inference"
    is_of_numbers: ClassVar[bool] = True

    attribute: str
    model: str  # the folder that `train` wrote
    limit: float = 3.0

    def about(self) -> Trained:
        try:
            return msgspec.json.decode(Path(self.model, ABOUT).read_bytes(), type=Trained)
        except (OSError, msgspec.DecodeError) as error:
            raise InvalidInput(
                f"there is no model in {self.model}; make one with hanse.pipeline.capsules.train: {error}"
            ) from error

    def place(self) -> Column:
        from pyspark.sql import functions as f

        return f.col("entity")

    def rows(self, observations: DataFrame) -> DataFrame:
        from pyspark.ml import PipelineModel
        from pyspark.sql import functions as f

        trained = self.about()
        model = PipelineModel.load(str(Path(self.model).absolute()))
        of_it = observations.where((f.col("attribute") == self.attribute) & f.col("value").isNotNull())
        return model.transform(_featured(of_it)).select(
            "place", "observed_at", "lat", "lon", "scopes", "value", "unit", "quality", "expected",
            f.lit(trained.error).alias("error"), f.lit(trained.accuracy).alias(ACCURACY),
        )  # fmt: skip

    def made(self, row: dict[str, Any]) -> Iterator[Made]:
        stated = row["quality"] or {}
        quality = scaled(stated, ACCURACY, row[ACCURACY])
        off = row["value"] - row["expected"]
        score = off / row["error"] if row["error"] > 0 else 0.0
        values = (
            Value(self.attribute, row["value"], row["unit"] or "", stated),
            Value(f"{self.attribute}Expected", row["expected"], row["unit"] or "", quality),
            Value("anomalyScore", score, "", quality),
            Value("isAnomalous", abs(score) > self.limit, "", quality),
        )
        yield row["place"], None, Inferred(values, row["observed_at"].timestamp(), row["lat"], row["lon"]), row["scopes"]
