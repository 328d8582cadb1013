"""Contracts: whether what a producer guarantees is what a consumer requires, and what is missing if not.

A guarantee and a requirement are texts of the same language, `precision>=60;freshness<=30`: each is a set of qualities. So

- *satisfied*: every quality that meets the guarantee meets the requirement, and there is one;
- *impossible*: no quality meets both. That is so as well if one of the two contradicts itself;
- *possible*: everything else. Whether a notification is good enough shows when it comes.

The answers are exact (`value_sets`), taking what each indicator may be to be its own affair. That of a whole and those of its
attributes are no exception: `freshness` of the whole may be stated apart from any attribute, in which case it says nothing of
`temperature.freshness`; an attribute may lack an indicator that the whole has; and of several attributes one may be worse than
the one that is guaranteed. So none of them stands for another.

Nothing here knows the levels that users write: `requirements.normalized` has made numbers of them.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from hanse.filters import compile_quality
from hanse.filters.patterns import pattern_search
from hanse.filters.terms import Joined, Within
from hanse.filters.values import number_value
from hanse.model import InvalidInput, Selector
from hanse.quality.value_sets import ValueSet, allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.filters.paths import Path
    from hanse.filters.terms import Node
    from hanse.model import Advertisement, Subscription

KEPT_MAX: Final = 1024  # texts whose sets are remembered, and verdicts
SHOWN_LENGTH_MAX: Final = 200  # of a text of the user's, in words

Kind: TypeAlias = Literal["satisfied", "possible", "impossible"]
_WORST_FIRST: Final[tuple[Kind, ...]] = ("impossible", "possible", "satisfied")


class Term(Struct, frozen=True):
    """What is required of one indicator, and what is guaranteed of it ("": nothing)."""

    indicator: str
    required: str
    guaranteed: str
    kind: Kind


class Verdict(Struct, frozen=True):
    kind: Kind
    missing: tuple[str, ...] = ()  # in words; nothing if it is satisfied
    terms: tuple[Term, ...] = ()  # one for each indicator that is required

    @property
    def is_satisfied(self) -> bool:
        return self.kind == "satisfied"


class _Stated(Struct, frozen=True):
    """What a text says of one indicator."""

    path: Path
    text: str
    values: ValueSet
    numbers: frozenset[float]  # as they are written

    @property
    def criterion(self) -> str:
        return self.path.names[-1]


@lru_cache(maxsize=KEPT_MAX)
def check(guarantee: str, requirement: str) -> Verdict:
    """Whether a guarantee satisfies a requirement. Raises InvalidInput for what is neither."""
    guaranteed, required = _of(guarantee, "the guarantee"), _of(requirement, "the requirement")
    found: list[tuple[Kind, str]] = [
        ("impossible", f"{whose} contradicts itself: nothing is {_shown(one.text)}")
        for whose, stated in (("the guarantee", guaranteed), ("the requirement", required))
        for one in stated.values()
        if not one.values
    ]
    terms: list[Term] = []
    for name, wanted in required.items():
        given = guaranteed.get(name)
        kind = _kind(given, wanted)
        terms.append(Term(name, wanted.text, "" if given is None else given.text, kind))
        if kind != "satisfied" and wanted.values and (given is None or given.values):
            found.append((kind, _words(given, wanted, guaranteed)))
    return Verdict(*_summed(found), tuple(terms))


def check_contract(advertisement: Advertisement, subscription: Subscription) -> Verdict:
    """Whether what is published under an advertisement is what a subscription requires.

    Satisfied: whatever of it the subscription selects has the quality. Impossible: the subscription selects none of it, or none
    of good quality. What `q`, `xpath`, attributes and geofences let pass is left open, and so is who sees which scope.
    """
    verdict = check(advertisement.quality, subscription.quality)
    found: list[tuple[Kind, str]] = []
    if (apart := _apart(advertisement.selectors, subscription.selectors)) is not None:
        found.append(apart)
    for dimension, scope in sorted(subscription.scopes.items()):
        offered = advertisement.scopes.get(dimension, scope)
        if offered != scope:
            words = f"it is for {offered!r} in {dimension!r}, and {scope!r} is subscribed to: only if that is visible there"
            found.append(("possible", words))
    kind, missing = _summed(found)
    worst = min(kind, verdict.kind, key=_WORST_FIRST.index)
    return Verdict(worst, (*missing, *verdict.missing), verdict.terms)


def offers(advertised: tuple[Selector, ...], wanted: tuple[Selector, ...]) -> bool:
    """Whether what is advertised by its types could be wanted; not merely because entities may have further types."""
    return _apart(advertised, wanted) is None


def shortfall(guarantee: str, quality: Mapping[str, Any]) -> tuple[str, ...]:
    """What a quality lacks of a guarantee, in words; nothing if it meets it."""
    return tuple(
        f"{name} is {_value_text(quality.get(name))}, and {_shown(stated.text)} is guaranteed"
        for name, stated in _of(guarantee, "the guarantee").items()
        if quality.get(name) not in stated.values
    )


# --- what a text says -------------------------------------------------------------------------------------------------


def _of(text: str, whose: str) -> Mapping[str, _Stated]:
    try:
        return _stated(text)
    except InvalidInput as error:
        raise error.at(whose) from None


@lru_cache(maxsize=KEPT_MAX)
def _stated(text: str) -> Mapping[str, _Stated]:
    """By the name of the indicator, as it stands in a quality."""
    by_path: dict[str, list[Node]] = {}
    paths: dict[str, Path] = {}
    for node in compile_quality(text).conjuncts:
        assert not isinstance(node, Joined)
        by_path.setdefault(node.path.text, []).append(node)
        paths[node.path.text] = node.path
    return {
        name: _Stated(paths[name], ";".join(node.text for node in nodes), allowed(nodes), frozenset(_numbers(nodes)))
        for name, nodes in by_path.items()
    }


def _numbers(nodes: list[Node]) -> list[float]:
    return [
        float(end.key)
        for node in nodes
        if isinstance(node, Within)
        for interval in node.intervals
        for end in (interval.low, interval.high)
        if end is not None and end.kind == "number"
    ]


# --- verdicts ---------------------------------------------------------------------------------------------------------


def _kind(given: _Stated | None, wanted: _Stated) -> Kind:
    if given is None:
        return "possible" if wanted.values else "impossible"
    if not given.values & wanted.values:
        return "impossible"
    return "satisfied" if given.values <= wanted.values else "possible"


def _summed(found: list[tuple[Kind, str]]) -> tuple[Kind, tuple[str, ...]]:
    """The worst of it, and the words for all of it, worst first."""
    found = sorted(found, key=lambda one: _WORST_FIRST.index(one[0]))
    return found[0][0] if found else "satisfied", tuple(words for _, words in found)


def _words(given: _Stated | None, wanted: _Stated, guaranteed: Mapping[str, _Stated]) -> str:
    required = _shown(wanted.text)
    if given is None:
        return f"{_shown(wanted.path.text)} is not guaranteed{_near(wanted, guaranteed)}; {required} is required"
    if not given.values & wanted.values:
        return f"{_shown(given.text)} is guaranteed, and never {required}, which is required"
    limits = _limits(given, wanted)
    if limits:
        return f"{_shown(wanted.path.text)} is guaranteed only {limits}; {required} is required"
    return f"only {_shown(given.text)} is guaranteed; {required} is required"


def _limits(given: _Stated, wanted: _Stated) -> str:
    """How far a guarantee goes beyond what is required, if both are plain stretches of numbers."""
    have, need = given.values.span, wanted.values.span
    if have is None or need is None:
        return ""
    words = []
    if -inf < have[0] < need[0]:
        words.append(f"down to {_number(have[0])}" if have[0] in given.numbers else f"above {_number(nextafter(have[0], -inf))}")
    if need[1] < have[1] < inf:
        words.append(f"up to {_number(have[1])}" if have[1] in given.numbers else f"below {_number(nextafter(have[1], inf))}")
    return " and ".join(words)


def _near(wanted: _Stated, guaranteed: Mapping[str, _Stated]) -> str:
    """Someone who guarantees the same of the whole, or of another part, may think that this is enough."""
    same = [one for one in guaranteed.values() if one.criterion == wanted.criterion]
    if len(wanted.path.names) > 1 and wanted.criterion in guaranteed:
        return " (only that of the whole, which may differ)"
    return f" (only {_shown(same[0].path.text)}, which may differ)" if same else ""


def _number(value: float) -> str:
    return repr(value + 0.0).removesuffix(".0")


def _value_text(value: Any) -> str:
    number = number_value(value)
    if number is not None:
        return _number(number)
    return _shown(repr(value)) if isinstance(value, str) else "missing"


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH_MAX else text[: SHOWN_LENGTH_MAX - 4] + " ..."


# --- selectors --------------------------------------------------------------------------------------------------------


def _apart(advertised: tuple[Selector, ...], wanted: tuple[Selector, ...]) -> tuple[Kind, str] | None:
    """Why nothing is selected by both, or only what has further types; None: it may well be."""
    reasons = [_selectors_apart(one, other) for one in advertised or (Selector(),) for other in wanted or (Selector(),)]
    return None if None in reasons else max((one for one in reasons if one), key=lambda one: _WORST_FIRST.index(one[0]))


def _selectors_apart(one: Selector, other: Selector) -> tuple[Kind, str] | None:
    for what in ("topic", "id"):
        have, want = getattr(one, what), getattr(other, what)
        if None not in (have, want) and have != want:
            return "impossible", f"the {what} is {_shown(have)!r}, and {_shown(want)!r} is wanted"
    for entity, pattern in ((one.id, other.id_pattern), (other.id, one.id_pattern)):
        if entity is not None and pattern is not None and _is_never(pattern, entity):
            return "impossible", f"the id {_shown(entity)!r} is not like {_shown(pattern)!r}"
    if one.type is not None and other.type is not None and one.type != other.type:
        # an entity may have several types
        return "possible", f"the type is {_shown(one.type)!r}: only what is {_shown(other.type)!r} as well is selected"
    return None


def _is_never(pattern: str, entity: str) -> bool:
    try:
        return not pattern_search(pattern)(entity)
    except InvalidInput:  # more than is looked into here
        return False
