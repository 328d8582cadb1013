"""The air of Bordeaux through the pipeline: a file, collectors, quality, fusion, inference, a node, and Bob, who is told.

Twelve sensors on four streets publish NO2 and CO, with the quality that is computed against a certified analyser. Capsules on
Spark fuse the sensors of each street and infer how healthy its air is; a node tells Bob of unhealthy streets, if that is
accurate enough. Everything is kept in a lake, which is asked for the daily report, hot spots, and the air that buses have gone
through. The exit code is 0 only if what was told is what a plain computation, without Spark and without a node, says should have
been told.

Examples:
  python examples/bordeaux-air/pipeline.py
  python examples/bordeaux-air/pipeline.py --from 2004-11-22 --days 2 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.errors import PySparkException

import hanse
from bordeaux import days, live, measurements, on_spark, page, picture, scenario
from bordeaux.context import BOBS_Q, LEVEL, is_unhealthy
from bordeaux.days import Voice
from bordeaux.expected import street_hours
from bordeaux.index import UNHEALTHY
from bordeaux.measurements import HOUR, Row
from bordeaux.page import Table
from bordeaux.sensors import SENSORS, scope_of
from bordeaux.streets import STREETS, Report, Street
from hanse.model import InvalidInput
from hanse.pipeline import words
from hanse.pipeline.reports import Days, HotSpot, ProducerDay, promises_of_node
from hanse.quality import Level, default_registry

if TYPE_CHECKING:
    from bordeaux.live import Outcome, Told
    from bordeaux.on_spark import Asked, Exposure

START: Final = "2004-11-17"
DAYS: Final = 10
TAIL: Final = 4 * HOUR  # played on, so that the windows of the last hours close
SHOWN: Final = 6  # of the notifications that Bob gets
STREET_OF: Final = {scope_of(street): street for street in STREETS}


class Clock:
    """How long each step takes, in the order of the steps."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.steps[name] = round(time.perf_counter() - began, 1)


def main() -> int:
    given = arguments()
    voice, clock = Voice(given.json), Clock()
    try:
        since = days.day(given.since)
        rows = measurements.read()
        days.check(rows, since, given.days)
    except InvalidInput as error:
        print(f"pipeline.py: {error}", file=sys.stderr)
        return 2
    for made in ("lake", "run"):
        shutil.rmtree(given.out / made, ignore_errors=True)
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        said, outcome, asked = played(given, rows, since, voice, clock)
    except (InvalidInput, RuntimeError, hanse.NgsiLdClientError, PySparkException) as error:
        print(f"pipeline.py: {words(error)}", file=sys.stderr)
        return 1
    faults = [
        *live.differences("Bob", live.expected(said, is_quality_asked=True), outcome.bob),
        *live.differences("who asks no quality", live.expected(said, is_quality_asked=False), outcome.without_quality),
    ]
    result = results(said, outcome, asked)
    file = drawn(given.out, said, outcome, asked, result)
    if given.json:
        told = {"from": given.since, "days": given.days, **result, "page": str(file), "seconds": clock.steps, "faults": faults}
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        show(result, asked, file, clock, voice)
    for fault in faults:
        print(f"pipeline.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


def arguments() -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--from", dest="since", default=START, metavar="DATE", help=f"the first day that is played ({START})")
    ask.add_argument("--days", type=int, default=DAYS, help=f"how many days are played ({DAYS})")
    ask.add_argument(
        "--out",
        type=Path,
        default=Path("out/bordeaux-air/pipeline"),
        help="the folder for the page and the lake (out/bordeaux-air/pipeline); a lake of an earlier run is replaced",
    )
    ask.add_argument("--master", default="local[*]", help="where Spark runs, on this machine (local[*])")
    ask.add_argument("--json", action="store_true", help="the results as JSON on stdout; what happens goes to stderr")
    return ask.parse_args()


def played(
    given: argparse.Namespace, rows: Mapping[datetime, Row], since: datetime, voice: Voice, clock: Clock
) -> tuple[list[Report], Outcome, Asked]:
    """What should be said; then start nodes and Spark, let everything flow, hear what is told, and ask the lake."""
    heard = 0

    def say(text: str) -> None:
        voice.say(f"   {text}")

    def on_the_way(told: Told) -> None:
        nonlocal heard
        heard += 1
        if heard <= SHOWN:
            hour = told.hour[:16].replace("T", " ")
            say(f"Bob hears: {hour}  {STREET_OF[told.scope].name}: {told.level} ({told.index}), accuracy {told.accuracy:.0f} %")

    async def work() -> None:
        with clock.step("collect and publish"):
            number = await asyncio.to_thread(on_spark.publish, spark, city, since, until, given.out / "run", say)
            stops = await live.drive(transport, since, given.days)
            say(f"{number:,} readings of {len(SENSORS)} sensors are in the node of the city, {stops:,} of buses in another one")
        voice.title("Capsules: sensors become streets, gases become health; the node tells who has asked")
        with clock.step("pipeline"):
            await asyncio.to_thread(on_spark.process, spark, city, transport, given.out, say)

    last = since + timedelta(days=given.days - 1)
    until = last + timedelta(days=1) + TAIL
    voice.title("What the streets should say, in plain Python")
    with clock.step("plain computation"):
        said = street_hours(rows, since, until)
    say(f"{len(said):,} hours of {len(STREETS)} streets, {sum(map(is_unhealthy, said))} of them unhealthy for sensitive groups")
    with clock.step("start"), ExitStack() as started:
        spark = started.enter_context(on_spark.spark_session(given.master, given.out / "run"))
        city, transport = (started.enter_context(scenario.node()) for _ in range(2))
        running = started.pop_all()
    with running:
        voice.title(f"A node for the city at {city}, one for its buses at {transport}, and Spark")
        say(f"Bob: subscribe(type={live.TYPE!r}, q={BOBS_Q!r}, quality_q={live.BOBS_QUALITY!r})")
        outcome = asyncio.run(live.listen(city, work, on_the_way))
        with clock.step("reports"):
            asked = on_spark.ask(spark, given.out, promises_of_node(city), Days(since.date(), last.date()))
    return said, outcome, asked


# --- results ------------------------------------------------------------------------------------------------------------


def results(said: list[Report], outcome: Outcome, asked: Asked) -> dict[str, Any]:
    return {
        "streets": [street_row(street, said, outcome) for street in STREETS],
        "told": msgspec.to_builtins(outcome.bob),
        "producers": producer_rows(asked.daily),
        "daily": msgspec.to_builtins(asked.daily),
        "hotSpots": msgspec.to_builtins(asked.hot_spots),
        "buses": msgspec.to_builtins(asked.buses),
    }


def street_row(street: Street, said: list[Report], outcome: Outcome) -> dict[str, Any]:
    unhealthy = [one for one in said if one.street == street and is_unhealthy(one)]
    wanted = [one for one in unhealthy if live.is_good_enough(one)]
    scope = scope_of(street)
    return {
        "street": street.name,
        "hours": sum(one.street == street for one in said),
        "unhealthy": len(unhealthy),
        "unhealthyAndGoodEnough": len(wanted),
        "bobTold": sum(one.scope == scope for one in outcome.bob),
        "toldWithoutQuality": sum(one.scope == scope for one in outcome.without_quality),
        "bobRight": right(wanted),
        "withoutQualityRight": right(unhealthy),
    }


def right(told: list[Report]) -> list[int]:
    """How many the analyser agreed with, of those that it says something of."""
    checked = [one.truth.level in UNHEALTHY for one in told if one.truth is not None]
    return [sum(checked), len(checked)]


def producer_rows(daily: list[ProducerDay]) -> list[dict[str, Any]]:
    """The daily report in one row for each producer that has promised something."""
    rows = []
    for name in sorted({one.producer for one in daily if one.producer}):
        own = [one for one in daily if one.producer == name]
        broken: dict[str, int] = {}
        for one in own:
            for part, number in one.broken.items():
                broken[part] = broken.get(part, 0) + number
        complete = [one.completeness for one in own if one.completeness is not None]
        rows.append(
            {
                "producer": name,
                "promised": own[0].promised,
                "days": len(own),
                "daysKept": sum(one.is_kept is True for one in own),
                "publications": sum(one.publications for one in own),
                "met": sum(one.met or 0 for one in own),
                "completeness": sum(complete) / len(complete) if complete else None,
                "broken": broken,
            }
        )
    return rows


# --- the page and the tables --------------------------------------------------------------------------------------------


def drawn(folder: Path, said: list[Report], outcome: Outcome, asked: Asked, result: dict[str, Any]) -> Path:
    by_street = [(one.name, scope_of(one), [report for report in said if report.street == one]) for one in STREETS]
    shade = picture.Shade("accuracy", level_of_accuracy)
    picture.draw(by_street, [(one.scope, one.hour) for one in outcome.bob], folder / "streets.png", shade)
    file = folder / "index.html"
    about = "Marks: Bob is told. The real measurements of one station play all sensors; see the README of the example."
    every = [streets_table(result["streets"]), producers_table(result["producers"]), spots_table(asked.hot_spots)]
    tables = [*every, buses_table(asked.buses), daily_table(asked.daily)]
    page.write(file, "The air of Bordeaux through the pipeline", about, "streets.png", tables)
    return file


def level_of_accuracy(report: Report) -> Level | None:
    value = report.quality[LEVEL].get("accuracy")
    return None if value is None else default_registry().by_name["accuracy"].definition.level(value)


def show(result: dict[str, Any], asked: Asked, file: Path, clock: Clock, voice: Voice) -> None:
    for table in (
        streets_table(result["streets"]),
        producers_table(result["producers"]),
        spots_table(asked.hot_spots),
        buses_table(asked.buses),
    ):
        voice.title(table.title)
        for line in table.lines():
            voice.say(f"   {line}")
    voice.say("\n   " + ", ".join(f"{name} {seconds} s" for name, seconds in clock.steps.items()))
    voice.say(f"   Look at {file}; or ask the lake: hanse report quality --lake {file.parent / 'lake'}")


def streets_table(rows: list[dict[str, Any]]) -> Table:
    names = ("hours", "unhealthy", "unhealthyAndGoodEnough", "bobTold", "toldWithoutQuality")
    total: dict[str, Any] = {"street": "all"} | {name: sum(row[name] for row in rows) for name in names}
    total |= {name: [sum(row[name][part] for row in rows) for part in (0, 1)] for name in ("bobRight", "withoutQualityRight")}
    return Table(
        "Unhealthy for sensitive groups, accuracy high, completeness medium: Bob is told if all hold, and only then",
        "",
        (
            "street",
            "hours",
            "unhealthy",
            "good enough",
            "Bob told",
            "told without quality",
            "analyser agrees with Bob / without",
        ),
        [
            (
                row["street"],
                *(str(row[name]) for name in names),
                f"{share(*row['bobRight'])} / {share(*row['withoutQualityRight'])}",
            )
            for row in (*rows, total)
        ],
    )


def producers_table(rows: list[dict[str, Any]]) -> Table:
    return Table(
        "The daily report in short: promised against delivered",
        "Of each producer: days on which all of the promise was kept, and publications that kept it.",
        ("producer", "promised", "days kept", "publications kept", "complete", "broken"),
        [
            (
                row["producer"],
                row["promised"],
                f"{row['daysKept']} of {row['days']}",
                f"{share(row['met'], row['publications'])} of {row['publications']}",
                "-" if row["completeness"] is None else f"{row['completeness']:.0f} %",
                "; ".join(f"{part} by {number}" for part, number in row["broken"].items()),
            )
            for row in rows
        ],
    )


def daily_table(daily: list[ProducerDay]) -> Table:
    return Table(
        "The daily report",
        "",
        ("day", "producer", "publications", "kept", "complete", "worst accuracy", "longest gap", "broken"),
        [
            (
                one.day,
                one.producer,
                str(one.publications),
                share(one.met or 0, one.publications),
                "-" if one.completeness is None else f"{one.completeness:.0f} %",
                f"{one.quality['accuracy'].worst:.1f} %" if "accuracy" in one.quality else "-",
                "-" if one.longest_gap_s is None else f"{one.longest_gap_s / 3600:.0f} h",
                "; ".join(f"{part} by {number}" for part, number in one.broken.items()),
            )
            for one in daily
            if one.producer
        ],
    )


def spots_table(spots: list[HotSpot]) -> Table:
    return Table(
        "Where NO2 is high: means by accuracy, of what the streets say",
        "z is Getis and Ord's Gi*; of four streets that breathe the same air it can say little.",
        ("street", "NO2 µg/m3", "hours", "accuracy", "z"),
        [
            (
                STREET_OF[one.place].name,
                f"{one.value:.1f}",
                str(one.observations),
                "-" if one.quality is None else f"{one.quality:.0f} %",
                "-" if one.z is None else f"{one.z:+.2f}",
            )
            for one in spots
        ],
    )


def buses_table(buses: list[Exposure]) -> Table:
    return Table(
        "What buses go through: positions of one community in the air of another",
        "Each position with the newest NO2 of the last hour within 300 metres.",
        ("bus", "positions", "mean NO2 µg/m3", "most", "where"),
        [
            (one.bus.rpartition(":")[2], str(one.positions), f"{one.mean:.1f}", f"{one.most:.1f}", one.worst_street)
            for one in buses
        ],
    )


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
