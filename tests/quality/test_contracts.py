"""Contracts: the verdict on a guarantee and a requirement is what trying all qualities would say."""

from __future__ import annotations

from itertools import product
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.filters import compile_quality
from hanse.matching.meaning import passes_quality, satisfies
from hanse.model import Advertisement, InvalidInput, Notification, Selector, Subscription
from hanse.quality.contracts import Verdict, check, check_contract, offers, shortfall
from hanse.routing.promises import promised

NAMES = ("freshness", "temperature.freshness")
# texts compare with 0 to 3: each of these, what lies between two of them, and what lies outside, says all that there is to say
NUMBERS = (-inf, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, inf)
VALUES: tuple[Any, ...] = (None, nan, *NUMBERS, "low", "high", "other")
GRID = [
    {name: value for name, value in zip(NAMES, values, strict=True) if value is not None}
    for values in product(VALUES, repeat=len(NAMES))
]

numbers = st.integers(0, 3).map(str)
constants = st.one_of(numbers, st.sampled_from(('"low"', '"high"')))
orders = st.builds("{}{}".format, st.sampled_from(("<", "<=", ">", ">=")), numbers)
equalities = st.builds(
    lambda sign, values: sign + ",".join(values), st.sampled_from(("==", "!=")), st.lists(constants, min_size=1, max_size=3)
)
ranges = st.builds(
    lambda sign, ends: f"{sign}{min(ends)}..{max(ends)}", st.sampled_from(("==", "!=")), st.tuples(numbers, numbers)
)
comparisons = st.builds("{}{}".format, st.sampled_from(NAMES), st.one_of(st.just(""), orders, equalities, ranges))
texts = st.lists(comparisons, max_size=4).map(";".join)


@given(texts, texts)
def test_a_verdict_is_what_trying_says(guarantee: str, requirement: str) -> None:
    under = [quality for quality in GRID if compile_quality(guarantee).matches(quality)]
    meeting = [quality for quality in under if compile_quality(requirement).matches(quality)]
    verdict = check(guarantee, requirement)
    assert verdict.kind == ("impossible" if not meeting else "satisfied" if len(meeting) == len(under) else "possible")
    assert bool(verdict.missing) is not verdict.is_satisfied
    assert [term.indicator for term in verdict.terms] == sorted(path.text for path in compile_quality(requirement).paths)


@given(texts, texts, st.dictionaries(st.sampled_from(NAMES), st.one_of(st.floats(), st.sampled_from(NUMBERS))))
def test_what_passes_a_guarantee_that_satisfies_passes_the_requirement(guarantee: str, requirement: str, quality: Any) -> None:
    advertisement = Advertisement(id="a", client="sensor", quality=guarantee)
    notification = Notification(id="n", publisher="sensor", advertisement="a", quality=quality)
    kept = promised(notification, {"a": advertisement}, 0)
    kind = check(guarantee, requirement).kind
    if kept is advertisement and kind != "possible":
        assert passes_quality(requirement, notification) is (kind == "satisfied")


@given(texts, st.sampled_from(GRID))
def test_a_shortfall_is_told_if_and_only_if_there_is_one(guarantee: str, quality: dict[str, Any]) -> None:
    assert bool(shortfall(guarantee, quality)) is not compile_quality(guarantee).matches(quality)


@given(texts)
def test_what_is_guaranteed_satisfies_itself_unless_it_contradicts_itself(text: str) -> None:
    assert check(text, text).kind in ("satisfied", "impossible")
    assert check("", text).kind != "satisfied" or not text


@pytest.mark.parametrize(
    ("guarantee", "requirement", "kind", "missing"),
    [
        ("precision>=60;freshness<=30", "precision>=40", "satisfied", ()),
        ("", "", "satisfied", ()),
        ("precision>5", "precision!=5", "satisfied", ()),
        ("", "freshness<=30", "possible", ("freshness is not guaranteed; freshness<=30 is required",)),
        ("precision", "precision", "satisfied", ()),
        (
            "precision>=40",
            "precision>=60",
            "possible",
            ("precision is guaranteed only down to 40; precision>=60 is required",),
        ),
        ("freshness<60", "freshness<=30", "possible", ("freshness is guaranteed only below 60; freshness<=30 is required",)),
        ("freshness", "freshness<=30", "possible", ("only freshness is guaranteed; freshness<=30 is required",)),
        (
            "precision<=30",
            "freshness<=9;precision>=60",
            "impossible",
            (
                "precision<=30 is guaranteed, and never precision>=60, which is required",
                "freshness is not guaranteed; freshness<=9 is required",
            ),
        ),
        (
            "freshness<=30",
            "hall.freshness<=60",
            "possible",
            ("hall.freshness is not guaranteed (only that of the whole, which may differ); hall.freshness<=60 is required",),
        ),
        (
            "temperature.freshness<=30",
            "freshness<=60",
            "possible",
            ("freshness is not guaranteed (only temperature.freshness, which may differ); freshness<=60 is required",),
        ),
        ("a>3;a<2", "", "impossible", ("the guarantee contradicts itself: nothing is a<2;a>3",)),
        ("a>3", "a>3;a<2", "impossible", ("the requirement contradicts itself: nothing is a<2;a>3",)),
        ('trust=="high","best"', 'trust!="low"', "satisfied", ()),
    ],
)
def test_what_is_missing_is_told_in_words(guarantee: str, requirement: str, kind: str, missing: tuple[str, ...]) -> None:
    verdict = check(guarantee, requirement)
    assert (verdict.kind, verdict.missing) == (kind, missing)


def test_neighbouring_numbers_are_told_apart() -> None:
    assert check("a>0.1;a<0.10000000000000002", "").kind == "impossible"  # there is no double between them
    assert check("a>=0.10000000000000002", "a>0.1").kind == "satisfied"
    assert check("a>1.7976931348623157e308", "a>=5").kind == "satisfied"
    assert check("a>1.7976931348623157e308", "a<=1.7976931348623157e308").kind == "impossible"


def test_who_is_wrong_is_named() -> None:
    with pytest.raises(InvalidInput, match="the guarantee: column 3"):
        check("a>", "a>1")
    with pytest.raises(InvalidInput, match="the requirement: a quality requirement has no patterns"):
        check("a>1", 'a~="x"')


# --- with selectors ---------------------------------------------------------------------------------------------------

IDS = ("urn:a:1", "urn:b:2")
selectors = st.builds(
    Selector,
    type=st.sampled_from((None, "Bus", "Tram")),
    id=st.sampled_from((None, *IDS)),
    id_pattern=st.sampled_from((None, "^urn:a:", "2$")),
    topic=st.sampled_from((None, "north", "south")),
)
several = st.lists(selectors, max_size=2).map(tuple)
qualities = st.sampled_from(("", "precision>=40", "precision>=60", "precision<=30"))
EVENTS = [
    Notification(id="n", publisher="p", types=types, entity=entity, topic=topic, quality=quality, advertisement="a")
    for types, entity, topic, quality in product(
        ((), ("Bus",), ("Tram",), ("Bus", "Tram")),
        (None, *IDS),
        (None, "north", "south"),
        ({}, {"precision": 20.0}, {"precision": 50.0}, {"precision": 70.0}),
    )
]


@given(several, qualities, several, qualities)
def test_a_contract_holds_for_what_both_select(
    advertised: tuple[Selector, ...], guarantee: str, wanted: tuple[Selector, ...], requirement: str
) -> None:
    advertisement = Advertisement(id="a", client="p", selectors=advertised, quality=guarantee)
    subscription = Subscription(id="s", client="c", selectors=wanted, quality=requirement)
    anything = Subscription(id="s", client="c", selectors=wanted)
    kept = [event for event in EVENTS if promised(event, {"a": advertisement}, 0) is advertisement]
    selected = [event for event in kept if satisfies(anything, event, None, None)]
    heard = [event for event in selected if satisfies(subscription, event, None, None)]
    verdict = check_contract(advertisement, subscription)
    if verdict.kind == "impossible":
        assert not heard
    if verdict.is_satisfied:
        assert heard == selected
    assert bool(verdict.missing) is not verdict.is_satisfied
    if not offers(advertised, wanted):
        assert all(len(event.types) > 1 for event in selected)


@pytest.mark.parametrize(
    ("advertised", "wanted", "kind", "words"),
    [
        (Selector(type="Bus"), Selector(type="Bus", id="urn:a:1"), "satisfied", ""),
        (Selector(type="Bus"), Selector(type="Tram"), "possible", "only what is 'Tram' as well is selected"),
        (Selector(id="urn:a:1"), Selector(id="urn:b:2"), "impossible", "the id is 'urn:a:1', and 'urn:b:2' is wanted"),
        (Selector(id_pattern="^urn:a:"), Selector(id="urn:b:2"), "impossible", "is not like '^urn:a:'"),
        (Selector(id_pattern="^urn:a:"), Selector(id_pattern="^urn:b:"), "satisfied", ""),  # patterns are not compared
        (Selector(topic="north"), Selector(topic="south"), "impossible", "the topic is 'north', and 'south' is wanted"),
    ],
)
def test_who_selects_something_else_is_told(advertised: Selector, wanted: Selector, kind: str, words: str) -> None:
    verdict = check_contract(
        Advertisement(id="a", client="p", selectors=(advertised,)), Subscription(id="s", client="c", selectors=(wanted,))
    )
    assert verdict.kind == kind
    assert words in "".join(verdict.missing)


def test_different_scopes_leave_it_open() -> None:
    advertisement = Advertisement(id="a", client="p", scopes={"place": "Paris"}, quality="precision>=40")

    def verdict(place: str, quality: str) -> Verdict:
        return check_contract(advertisement, Subscription(id="s", client="c", scopes={"place": place}, quality=quality))

    assert verdict("Paris", "precision>=40").is_satisfied
    assert verdict("Lyon", "precision>=40").kind == "possible"
    assert "'Lyon' is subscribed to" in verdict("Lyon", "precision>=40").missing[0]
    assert verdict("Lyon", "precision<=9").kind == "impossible"
