"""Bob, who has asthma, walks through Bordeaux: he is told where the air is unhealthy for him, if that is likely to be right.

The motivating scenario of the INCOME paper, on real measurements and on a real node. Four streets publish what their low-cost
sensors make of the air, hour by hour, with the quality of that, which is computed against a certified analyser. Bob subscribes to
'unhealthy for sensitive groups, correctness at least medium'. In the end the numbers of hours and of notifications are compared.

Examples:
  python examples/bordeaux-air/run.py
  python examples/bordeaux-air/run.py --from 2005-03-07 --days 14 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import hanse
from bordeaux import days, measurements, scenario
from bordeaux.context import (
    BOBS_Q,
    BOBS_QUALITY,
    LEVEL,
    STREET_OF,
    TYPE,
    bobs_xpath,
    id_of,
    is_for_bob,
    is_unhealthy,
    moment,
)
from bordeaux.days import Voice
from bordeaux.index import UNHEALTHY
from bordeaux.picture import draw
from bordeaux.streets import STREETS, Report, Street, reports
from hanse.model import InvalidInput

START: Final = "2004-11-15"
DAYS: Final = 35
NATIVE: Final = STREETS[0]  # the street of the paper's listing
SHOWN: Final = 6  # of the notifications that Bob gets


class BobsVoice(Voice):
    """With the first things that Bob hears."""

    def __init__(self, is_json: bool) -> None:
        super().__init__(is_json)
        self._heard = 0

    def heard(self, data: dict[str, Any]) -> None:
        self._heard += 1
        if self._heard <= SHOWN and data["id"] in STREET_OF:
            level = data[LEVEL]
            hour = data["dateObserved"]["value"][:16].replace("T", " ")
            correct = level["correctness"]["value"]
            self.say(f"   Bob hears: {hour}  {data['name']['value']}: {level['value']}, correctness {correct:.0f} %")


def main() -> int:
    given = arguments()
    voice = BobsVoice(given.json)
    try:
        since = days.day(given.since)
        said = everything(since, given.days, voice)
    except InvalidInput as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    try:
        played = play(said, voice)
    except (RuntimeError, hanse.NgsiLdClientError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    rows = [row(street, said, played) for street in STREETS]
    natively = {
        "street": NATIVE.name,
        "expected": sum(is_for_bob(one) for one in said if one.street == NATIVE),
        "heard": len(played.natively),
    }
    faults = compared(said, played)
    file = given.out / "bordeaux-air.png"
    by_street = [(f"{one.name}: {one.words}", id_of(one), [r for r in said if r.street == one]) for one in STREETS]
    draw(by_street, played.bob, file)
    if given.json:
        result = {"from": given.since, "days": given.days, "streets": rows, "natively": natively, "picture": str(file)}
        print(json.dumps(result | {"faults": faults}, indent=2, ensure_ascii=False))
    else:
        show(rows, natively, file, voice)
    for fault in faults:
        print(f"run.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


def arguments() -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--from", dest="since", default=START, metavar="DATE", help=f"the first day that is played ({START})")
    ask.add_argument("--days", type=int, default=DAYS, help=f"how many days are played ({DAYS})")
    ask.add_argument("--out", type=Path, default=Path("out/bordeaux-air"), help="the folder for the picture (out/bordeaux-air)")
    ask.add_argument("--json", action="store_true", help="the table as JSON on stdout; what happens goes to stderr")
    return ask.parse_args()


def everything(since: datetime, number: int, voice: Voice) -> list[Report]:
    """What all streets say, in the order of time."""
    rows = measurements.read()
    days.check(rows, since, number)
    voice.title("Sensors beside a certified analyser: calibrate, estimate, qualify")
    said: list[Report] = []
    for street in STREETS:
        began = time.perf_counter()
        found = list(reports(rows, street, since, since + timedelta(days=number)))
        said += found
        unhealthy = sum(map(is_unhealthy, found))
        voice.say(
            f"   {street.name:<22}{street.words:<48}{len(found):>5} hours, {unhealthy:>3} unhealthy"
            f"   ({time.perf_counter() - began:.1f} s)"
        )
    if not said:
        raise InvalidInput("the sensors were silent on all of these days; take others")
    return sorted(said, key=lambda report: report.statement.hour)


def play(said: list[Report], voice: BobsVoice) -> scenario.Outcome:
    """Start a node, publish everything, and hear what is heard."""
    with scenario.node() as url:
        voice.title(f"A node at {url}; the streets publish, Bob listens")
        voice.say(f"   subscribe(type={TYPE!r}, q={BOBS_Q!r}, quality_q={BOBS_QUALITY!r})")
        for constraint in bobs_xpath(NATIVE):
            voice.say(f"   xpath: {constraint}")
        began = time.perf_counter()
        published = 0

        def at_hour(hour: list[Report]) -> None:
            nonlocal published
            published += len(hour)
            if hour[0].statement.hour.hour == 0 and hour[0].statement.hour.weekday() == 0:
                rate = published / (time.perf_counter() - began)
                voice.say(f"   {hour[0].statement.hour:%Y-%m-%d}: {published} reports so far, {rate:.0f} a second")

        outcome = asyncio.run(scenario.play(url, said, NATIVE, told=voice.heard, at_hour=at_hour))
        voice.say(f"   {len(said)} reports published twice, as entities and in XML, in {time.perf_counter() - began:.1f} s")
        return outcome


# --- the table --------------------------------------------------------------------------------------------------------


def row(street: Street, said: list[Report], played: scenario.Outcome) -> dict[str, Any]:
    own = [one for one in said if one.street == street]
    unhealthy = [one for one in own if is_unhealthy(one)]
    wanted = [one for one in unhealthy if is_for_bob(one)]
    id_ = id_of(street)
    return {
        "street": street.name,
        "box": street.words,
        "hours": len(own),
        "unhealthy": len(unhealthy),
        "unhealthyAndMedium": len(wanted),
        "bobHeard": sum(one == id_ for one, _ in played.bob),
        "heardWithoutQuality": sum(one == id_ for one, _ in played.without_quality),
        "told": sorted(hour for one, hour in played.bob if one == id_),
        "bobRight": right(wanted),
        "withoutQualityRight": right(unhealthy),
    }


def right(told: list[Report]) -> list[int]:
    """How many the analyser agreed with, of those that it says something of."""
    checked = [one.truth.level in UNHEALTHY for one in told if one.truth is not None]
    return [sum(checked), len(checked)]


def compared(said: list[Report], played: scenario.Outcome) -> list[str]:
    """What is not as it must be: each must have heard exactly of the hours that are for him, once."""
    wanted = [(id_of(one.street), moment(one.statement.hour)) for one in said if is_for_bob(one)]
    unhealthy = [(id_of(one.street), moment(one.statement.hour)) for one in said if is_unhealthy(one)]
    native = [(NATIVE.sensor_uri, moment(one.statement.hour)) for one in said if one.street == NATIVE and is_for_bob(one)]
    faults = []
    for who, expected, heard in (
        ("Bob", wanted, played.bob),
        ("the subscription without quality", unhealthy, played.without_quality),
        ("Bob's native subscription", native, played.natively),
    ):
        if sorted(expected) != sorted(heard):
            missed, extra = set(expected) - set(heard), set(heard) - set(expected)
            faults.append(
                f"{who} heard of {len(heard)} hours, and should have of {len(expected)}: {len(missed)} missed, {len(extra)} extra"
            )
    return faults


def show(rows: list[dict[str, Any]], natively: dict[str, Any], file: Path, voice: Voice) -> None:
    voice.title("Unhealthy for sensitive groups, correctness at least medium: Bob is told if both hold, and only then")
    voice.say(f"   {'':<22}{'':>7}{'':>11}{'of these,':>12}{'Bob':>8}{'told without':>15}{'analyser agrees':>20}")
    voice.say(
        f"   {'street':<22}{'hours':>7}{'unhealthy':>11}{'>= medium':>12}{'told':>8}{'quality':>15}{'with Bob / without':>20}"
    )
    total: dict[str, Any] = {"street": "all"}
    for name in ("hours", "unhealthy", "unhealthyAndMedium", "bobHeard", "heardWithoutQuality"):
        total[name] = sum(one[name] for one in rows)
    for name in ("bobRight", "withoutQualityRight"):
        total[name] = [sum(one[name][part] for one in rows) for part in (0, 1)]
    for one in (*rows, total):
        agrees = f"{share(one['bobRight'])} / {share(one['withoutQualityRight'])}"
        voice.say(
            f"   {one['street']:<22}{one['hours']:>7}{one['unhealthy']:>11}{one['unhealthyAndMedium']:>12}{one['bobHeard']:>8}"
            f"{one['heardWithoutQuality']:>15}{agrees:>20}"
        )
    voice.say(f"   By XPath on XML, {natively['street']}: {natively['heard']} heard, {natively['expected']} expected.")
    voice.say(f"   Look at {file}.")


def share(right_of: list[int]) -> str:
    return f"{100 * right_of[0] / right_of[1]:.0f} %" if right_of[1] else "-"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
