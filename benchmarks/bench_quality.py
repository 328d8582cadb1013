"""What quality costs: filters on XML notifications, and ten thousand subscriptions that differ in the quality they ask for.

    python benchmarks/bench_quality.py [--quick] [--json]

Beside each figure stands what bare lxml takes to parse the same notifications in the same run, so that a slow machine shows.
Times are CPU time, the best of several rounds, because the machine has other things to do. Nothing is asserted; the last line
says which limits hold.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from math import inf
from time import process_time_ns

from lxml import etree
from rich.console import Console

from figures import Figure, show
from hanse.filters import compile_xpath
from hanse.matching import MatchIndex
from hanse.model import Notification, Selector, Subscription, parse_xml
from hanse.model.payload import DOCUMENTS_KEPT
from hanse.quality import default_registry
from hanse.quality.indicators import quality
from hanse.quality.observation import Observation
from hanse.quality.xml_form import quality_of_xml, to_xml
from hanse.studies.income.documents import notification, value_constraint
from hanse.studies.income.findings import line_share

INDICATORS = 8  # what the paper calls usual
BOTH_US_MAX = 60
EVALUATION_US_MAX = 10
MATCH_US_MAX = 1000
LINEAR_MIN = 0.98
SUBSCRIPTIONS = 10_000
INDICATOR_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONSTRAINT_COUNTS = (1, 2, 4, 8, 16, 32)
VARIANTS = 4 * DOCUMENTS_KEPT  # different notifications, so that none is still known when its turn comes again
ROUNDS = 7
CRITERIA = ("precision", "accuracy", "correctness", "completeness", "timeliness", "trust", "freshness", "spatialResolution")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    runs = 200 if options.quick else 2000
    figures = [*filters(runs), *linearity(runs // 10), *subscriptions(runs // 10)]
    show(figures, Console(), "quality", as_json=options.json)


def filters(runs: int) -> list[Figure]:
    """One QoC-value constraint on a notification of the usual size."""
    texts = _notifications(INDICATORS)
    constraint = compile_xpath(value_constraint())
    roots = [parse_xml(text).root for text in texts]
    bare = _bare(texts, runs)
    both = _us(lambda n: constraint.matches(parse_xml(texts[n])), runs)
    evaluation = _us(lambda n: constraint.evaluate(roots[n]), runs)
    beside = f"bare lxml parses it in {bare:.1f} µs"
    return [
        Figure("parse and evaluate, 8 indicators", both, "µs", BOTH_US_MAX, at_least=False, beside=beside),
        Figure("evaluate alone, 8 indicators", evaluation, "µs", EVALUATION_US_MAX, at_least=False, beside=beside),
    ]


def linearity(runs: int) -> list[Figure]:
    by_indicators: dict[int, float] = {}
    for count in INDICATOR_COUNTS:
        by_indicators[count] = _filtered(_notifications(count), 1, max(20, runs // count))
    by_constraints = {count: _filtered(_notifications(1), count, runs) for count in CONSTRAINT_COUNTS}
    bare = _bare(_notifications(256), max(20, runs // 256))
    first, last = by_constraints[1], by_constraints[32]
    return [
        Figure(
            "a line explains, by 1 to 256 indicators",
            100 * line_share(by_indicators),
            "%",
            100 * LINEAR_MIN,
            at_least=True,
            beside=f"{by_indicators[1]:.0f} to {by_indicators[256]:.0f} µs; bare lxml parses 256 in {bare:.0f}",
        ),
        Figure(
            "a line explains, by 1 to 32 constraints",
            100 * line_share(by_constraints),
            "%",
            100 * LINEAR_MIN,
            at_least=True,
            beside=f"{first:.0f} to {last:.0f} µs",
        ),
    ]


def subscriptions(runs: int) -> list[Figure]:
    """Every one asks for a value of its own; few of them match, or about half."""
    notifications = [_observed(n) for n in range(VARIANTS)]
    bare = _bare([one.payload for one in notifications], runs)
    figures = []
    for form, asking in (("qualityQ", _by_quality), ("XPath", _by_xpath)):
        for share, low, high in (("few match", 70.0, 2070.0), ("half match", 0.0, 100.0)):
            index = MatchIndex()
            for n in range(SUBSCRIPTIONS):
                least = low + (high - low) * n / SUBSCRIPTIONS
                index.add(_subscription(n, asking, least))
            matched = sum(len(index.match(one, None)) for one in notifications) / len(notifications)
            figures.append(
                Figure(
                    f"10,000 distinct by {form}, {share}",
                    _matching(index, notifications, runs),
                    "µs",
                    MATCH_US_MAX,
                    at_least=False,
                    beside=f"{matched:,.0f} match; bare lxml parses in {bare:.1f} µs",
                )
            )
    return figures


def _matching(index: MatchIndex, notifications: list[Notification], runs: int) -> float:
    return _us(lambda n: index.match(notifications[n], None), runs)


def _observed(n: int) -> Notification:
    values = {name: round(1 + 98 * ((n * 7 + i * 3) % 11) / 11, 3) for i, name in enumerate(CRITERIA)}
    payload = to_xml(Observation(entity="urn:ngsi-ld:Sensor:1", observable="#NO2", value=n, quality=quality(values)))
    read = quality_of_xml(payload)
    return Notification(id="n", publisher="p", types=("Air",), quality=read, payload=payload, media_type="application/xml")


def _subscription(n: int, asking: Callable[[str, float], dict[str, object]], least: float) -> Subscription:
    members = asking(CRITERIA[n % len(CRITERIA)], least)
    return Subscription(id=f"s{n}", client=f"c{n % 100}", selectors=(Selector(type="Air"),), **members)  # type: ignore[arg-type]


def _by_quality(name: str, least: float) -> dict[str, object]:
    return {"quality": f"NO2.{name}>={least:.4f}"}


def _by_xpath(name: str, least: float) -> dict[str, object]:
    criterion = default_registry().by_name[name]
    kind = f"qoccriterion[@id='{criterion.criterion_id}']/qocmetricdefinition[@id='{criterion.definition.id}']"
    return {"xpath": (f"//qocindicator[@id='{criterion.id}' and {kind} and qocmetricvalue[@value >= '{least:.4f}']]",)}


def _notifications(indicators: int) -> list[str]:
    return [notification(indicators, 80 + n / 100) for n in range(VARIANTS)]


def _filtered(texts: list[str], constraints: int, runs: int) -> float:
    compiled = [compile_xpath(value_constraint(least=least)) for least in range(constraints)]

    def run(n: int) -> bool:
        document = parse_xml(texts[n])
        return all(one.matches(document) for one in compiled)

    return _us(run, runs)


def _bare(texts: list[str], runs: int) -> float:
    parser = etree.XMLParser()
    encoded = [text.encode() for text in texts]
    parse = partial(etree.fromstring, parser=parser)
    return _us(lambda n: parse(encoded[n]), runs)


def _us(step: Callable[[int], object], runs: int) -> float:
    best = inf
    for _ in range(ROUNDS):
        order = list(islice(cycle(range(VARIANTS)), runs))
        start = process_time_ns()
        for n in order:
            step(n)
        best = min(best, (process_time_ns() - start) / runs / 1000)
    return best


if __name__ == "__main__":
    main()
