"""All measurements of the study: what a filter takes by indicators and by constraints, and how long documents are.

A time is CPU time of a filter on one notification, the mean of many runs one after the other, as in the paper; and the best of
several such means, because the machine has other things to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from time import process_time_ns
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.filters import compile_xpath
from hanse.model import parse_xml
from hanse.model.payload import DOCUMENTS_KEPT
from hanse.studies.income.documents import CONTEXT_CONSTRAINT, criterion_constraint, notification, value_constraint
from hanse.studies.report import progress

if TYPE_CHECKING:
    from hanse.filters import XPathFilter

ROUNDS: Final = 5
_VARIANTS: Final = 2 * DOCUMENTS_KEPT  # different notifications, so that none is still known when its turn comes again


class Sizes(Struct, frozen=True, kw_only=True):
    indicators: tuple[int, ...]
    constraints: tuple[int, ...]
    runs: int


FULL: Final = Sizes(indicators=(1, 2, 4, 8, 16, 32, 64, 128, 256), constraints=(1, 2, 4, 8, 16, 32), runs=500)
QUICK: Final = Sizes(indicators=(1, 8, 64, 256), constraints=(1, 8, 16, 32), runs=60)


class Filtered(Struct, frozen=True):
    """What a filter takes for a notification, in microseconds."""

    whole: float  # parse the notification, evaluate all constraints
    evaluation: float  # of a notification that is parsed already
    compiling: float  # parse it and compile every constraint anew, too, as the paper's prototype does


class Length(Struct, frozen=True):
    """Characters: of the structure alone, and with data."""

    empty: int
    real: int


class Results(Struct, frozen=True, kw_only=True):
    sizes: Sizes
    context: Filtered
    criterion: dict[int, Filtered]  # one QoC-criterion constraint, by indicators
    value: dict[int, Filtered]  # one QoC-value constraint, by indicators
    constraints: dict[int, Filtered]  # QoC-value constraints, on a notification with one indicator
    observation: Length
    indicator: Length
    lengths: dict[int, int]  # of a notification, by indicators


def run(sizes: Sizes) -> Results:
    with progress("INCOME", 2 * len(sizes.indicators) + len(sizes.constraints) + 1) as done:

        def measured(indicators: int, constraints: Sequence[str]) -> Filtered:
            found = _measured(_notifications(indicators), constraints, sizes.runs)
            done(1)
            return found

        context = measured(1, (CONTEXT_CONSTRAINT,))
        value = {number: measured(number, (value_constraint(),)) for number in sizes.indicators}
        criterion = {number: measured(number, (criterion_constraint(),)) for number in sizes.indicators}
        constraints = {
            number: measured(1, [value_constraint(least=40 + least) for least in range(number)]) for number in sizes.constraints
        }
    bare, one, two = notification(0), notification(1), notification(2)
    return Results(
        sizes=sizes,
        context=context,
        criterion=criterion,
        value=value,
        constraints=constraints,
        observation=Length(len(emptied(bare)), len(bare)),
        indicator=Length(len(emptied(two)) - len(emptied(one)), (len(notification(17)) - len(bare)) // 17),
        lengths={number: len(notification(number)) for number in sizes.indicators},
    )


def emptied(text: str) -> str:
    """The same elements and attributes with nothing in them."""
    from lxml import etree

    root = etree.fromstring(text)
    for element in root.iter():
        element.text = "" if element.text else None
        for name in element.attrib:
            element.set(name, "")
    return etree.tostring(root, encoding="unicode")


def _notifications(indicators: int) -> list[str]:
    return [notification(indicators, 80.0 + variant / 100) for variant in range(_VARIANTS)]


def _measured(texts: list[str], constraints: Sequence[str], runs: int) -> Filtered:
    filters = [compile_xpath(constraint) for constraint in constraints]
    roots = [parse_xml(text).root for text in texts]

    def whole(number: int) -> bool:
        document = parse_xml(texts[number])
        return all(one.matches(document) for one in filters)

    def evaluation(number: int) -> bool:
        return all(one.evaluate(roots[number]) for one in filters)

    def compiling(number: int) -> bool:
        root = parse_xml(texts[number]).root
        return all(_anew(one)(root) for one in filters)

    return Filtered(*(_mean_us(step, len(texts), runs) for step in (whole, evaluation, compiling)))


def _anew(one: XPathFilter) -> Callable[..., object]:
    from lxml import etree

    return etree.XPath(one.canonical, regexp=False, smart_strings=False)


def _mean_us(step: Callable[[int], bool], variants: int, runs: int) -> float:
    """The best mean. Every run has to say yes: a filter that gives up early would seem quick."""
    means = []
    for _ in range(ROUNDS):
        order = list(islice(cycle(range(variants)), runs))
        start = process_time_ns()
        answers = [step(number) for number in order]
        means.append((process_time_ns() - start) / runs / 1000)
        if not all(answers):
            raise AssertionError("a filter that should hold does not")
    return min(means)
