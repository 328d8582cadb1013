"""XPath constraints on XML notifications, compiled; those on indicators of quality also to atoms that an index can hold.

A constraint holds for a document if its path finds something there, or its condition is true. lxml evaluates it, and the document
remembers the answer, so that an expression is evaluated once for a notification however many ask.

The constraints of the INCOME paper all speak of one element, `qocindicator`: of its id, of the ids of its criterion and of its
metric's definition, and of its value. Ten thousand of them differ in nothing but these texts and numbers. So they become an atom
on a **lane** that is named by the texts, and a document's indicators are read once and looked up among the lanes. What an atom
says is what the XPath says, exactly: indicators of the same ids share a lane, and one that has several criteria is on several.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from math import inf, isfinite, nextafter
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.filters.compiled import COMPILED_CACHE_SIZE, Atom
from hanse.filters.xpath_grammar import Compared, Constant, Joined, Path, Step, Term, parse_xpath
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.model import Document

INDICATOR, CRITERION, DEFINITION, VALUE = "qocindicator", "qoccriterion", "qocmetricdefinition", "qocmetricvalue"
_UNIT: Final = "\x1f"  # which no XML can have in it
_VALUE_ATTRIBUTE: Final = ("value", True)
_PLAIN_NUMBER = re.compile(r"(-?)([0-9]{1,15})(?:\.([0-9]{1,15}))?")


class XPathFilter(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A compiled constraint. Equal, and equally hashed, if it says the same in canonical form; pickles as its text."""

    text: str
    canonical: str
    atom: Atom | None  # which says it all

    @cached_property
    def evaluate(self) -> Any:
        """The compiled expression: called with the root of a document, it gives a boolean."""
        return _compiled(self.canonical)

    def matches(self, document: Document) -> bool:
        answer = document.answers.get(self.canonical)
        if answer is None:
            answer = document.answers[self.canonical] = bool(self.evaluate(document.root))
        return answer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, XPathFilter) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return compile_xpath, (self.text,)

    def __repr__(self) -> str:
        return f"XPathFilter({self.text!r})"


@lru_cache(maxsize=COMPILED_CACHE_SIZE)
def compile_xpath(text: str) -> XPathFilter:
    """One XPath constraint, `//qocindicator[@id='10' and qocmetricvalue[@value >= '40']]`. Raises InvalidInput."""
    term = parse_xpath(text)
    canonical = term.text
    _compiled(canonical)
    return XPathFilter(text=text, canonical=canonical, atom=_indicator_atom(term))


def _compiled(canonical: str) -> Any:
    from lxml import etree

    try:
        return etree.XPath(f"boolean({canonical})", regexp=False, smart_strings=False)
    except (etree.XPathError, ValueError) as error:  # a control character in a text
        raise InvalidInput(f"the XPath {canonical[:60]!r} cannot be used: {error}") from None


# --- constraints on indicators of quality ---------------------------------------------------------------------------------

# What a lane fixes of an indicator, its criterion and its definition: where each attribute stands in an `_Indicator.identities`.
_FIELDS: Final = {
    (INDICATOR, "id"): 0,
    (INDICATOR, "name"): 1,
    (CRITERION, "id"): 2,
    (CRITERION, "name"): 3,
    (DEFINITION, "id"): 4,
    (DEFINITION, "name"): 5,
}
_LEVELS: Final = {INDICATOR: "0", CRITERION: "1", DEFINITION: "2"}  # how far down an indicator a lane looks
_LEVEL_SIZES: Final = {"0": 2, "1": 4, "2": 6}


class _Indicator(Struct, frozen=True):
    """A `qocindicator` of a document: (id, name) of itself, a criterion and a definition for each of these, and its values."""

    identities: tuple[tuple[str | None, ...], ...]
    values: tuple[str, ...]


class _Wanted:
    """What a constraint asks of an indicator, gathered conjunct by conjunct."""

    def __init__(self) -> None:
        self.fixed: dict[int, str] = {}
        self.level = _LEVELS[INDICATOR]
        self.value: tuple[str, float | str, float | str] | None = None

    def take(self, term: Term) -> bool:
        """Whether it is of the form that a lane can say."""
        if isinstance(term, Compared):
            if isinstance(term.left, Path) and _names(term.left) == ((VALUE, False), _VALUE_ATTRIBUTE):
                return not any(step.predicates for step in term.left.steps) and self._take_value([term])
            return self._take_field(INDICATOR, term)
        if not isinstance(term, Path):
            return False
        if _names(term) == ((VALUE, False),):
            parts = _conjuncts(term.steps[0])
            return all(isinstance(part, Compared) and _names(part.left) == (_VALUE_ATTRIBUTE,) for part in parts) and (
                self._take_value([part for part in parts if isinstance(part, Compared)])
            )
        if self.level != _LEVELS[INDICATOR] or _names(term) not in (
            ((CRITERION, False),),
            ((CRITERION, False), (DEFINITION, False)),
        ):
            return False
        self.level = _LEVELS[term.steps[-1].name]
        return all(self._take_field(step.name, part) for step in term.steps for part in _conjuncts(step))

    def _take_field(self, element: str, term: Term) -> bool:
        """`@id = 'text'` of one of the three elements."""
        if not isinstance(term, Compared) or term.operator != "=" or term.right.kind != "text":
            return False
        names = _names(term.left)
        field = _FIELDS.get((element, names[0][0])) if len(names) == 1 and names[0][1] else None
        return field is not None and self.fixed.setdefault(field, term.right.value) == term.right.value

    def _take_value(self, parts: list[Compared]) -> bool:
        """Comparisons of one value of the metric: of texts, one `=`; of numbers, as many as there are."""
        if self.value is not None:
            return False
        low, high = -inf, inf
        for part in parts:
            if part.operator == "=" and part.right.kind == "text":
                self.value = ("text", part.right.value, part.right.value)
                return len(parts) == 1
            bounds = _bounds(part.operator, part.right)
            if bounds is None:
                return False
            low, high = max(low, bounds[0]), min(high, bounds[1])
        if (low, high) == (-inf, inf) or low > high:
            return False
        self.value = ("number", low, high)
        return True

    @property
    def lane(self) -> str:
        return _lane(_shape(self.level, self.fixed), [self.fixed[field] for field in sorted(self.fixed)])


def _indicator_atom(term: Term) -> Atom | None:
    """The atom of a constraint in the form of the paper; None for any other."""
    if not isinstance(term, Path) or len(term.steps) != 1:
        return None
    step = term.steps[0]
    if step.separator != "//" or step.name != INDICATOR or step.is_attribute:
        return None
    wanted = _Wanted()
    if not all(wanted.take(part) for part in _conjuncts(step)) or not wanted.fixed:
        return None
    if wanted.value is None:
        return Atom(wanted.lane, "exists")
    kind, low, high = wanted.value
    return Atom(wanted.lane, "text" if kind == "text" else "number", low, high)


def _names(term: Term) -> tuple[tuple[str, bool], ...]:
    """The steps of a path down from here, each with whether it is an attribute; none for anything else."""
    if not isinstance(term, Path) or term.is_absolute or term.descents:
        return ()
    return tuple((step.name, step.is_attribute) for step in term.steps)


def _conjuncts(step: Step) -> list[Term]:
    parts: list[Term] = []
    for predicate in step.predicates:
        parts += predicate.parts if isinstance(predicate, Joined) and predicate.word == "and" else (predicate,)
    return parts


def _bounds(operator: str, constant: Constant) -> tuple[float, float] | None:
    number = xpath_number(constant.value)
    if not isfinite(number) or operator == "!=":
        return None
    return {
        "=": (number, number),
        ">=": (number, inf),
        "<=": (-inf, number),
        ">": (nextafter(number, inf), inf),
        "<": (-inf, nextafter(number, -inf)),
    }[operator]


# --- reading the indicators of a document ----------------------------------------------------------------------------------


def lane_shape(lane: str) -> str:
    """What kind of lane it is: give those in use to `indicator_values`."""
    return lane.partition(_UNIT)[0]


def indicator_values(document: Document, shapes: Iterable[str]) -> dict[str, list[str]]:
    """The values of a document's indicators, as they are written, on each lane of these shapes that it is on."""
    if document.indicators is None:
        document.indicators = tuple(_indicators(document))
    found: dict[str, list[str]] = {}
    for shape in shapes:
        size = _LEVEL_SIZES[shape[0]]
        fields = [int(field) for field in shape[1:]]
        for indicator in document.indicators:
            lanes = set()
            for identity in indicator.identities:
                if len(identity) >= size:
                    values = [value for field in fields if (value := identity[field]) is not None]
                    if len(values) == len(fields):
                        lanes.add(_lane(shape, values))
            for lane in lanes:
                found.setdefault(lane, []).extend(indicator.values)
    return found


def _indicators(document: Document) -> Iterator[_Indicator]:
    for element in _find_indicators()(document.root):
        itself = (element.get("id"), element.get("name"))
        identities: list[tuple[str | None, ...]] = [itself]
        values = []
        for child in element:
            if child.tag == VALUE:
                value = child.get("value")
                if value is not None:
                    values.append(value)
            elif child.tag == CRITERION:
                criterion = (*itself, child.get("id"), child.get("name"))
                identities.append(criterion)
                identities += [(*criterion, part.get("id"), part.get("name")) for part in child if part.tag == DEFINITION]
        yield _Indicator(tuple(identities), tuple(values))


@cache
def _find_indicators() -> Any:
    from lxml import etree

    return etree.XPath(f"//{INDICATOR}", regexp=False, smart_strings=False)


def _shape(level: str, fields: Iterable[int]) -> str:
    return level + "".join(map(str, sorted(fields)))


def _lane(shape: str, values: list[str]) -> str:
    return f"{shape}{_UNIT}{_UNIT.join(values)}"


def xpath_number(text: str) -> float:
    """What XPath's `number` makes of a text, to the last bit; NaN if it is none.

    libxml2 adds the fraction to the whole, which rounds twice where Python rounds once. It does so exactly as this does, as long
    as both parts are exact; for anything longer or stranger it is asked.
    """
    plain = _PLAIN_NUMBER.fullmatch(text)
    if plain is None:
        return float(_number_of_text()(_dummy(), text=text))
    sign, whole, fraction = plain.groups()
    number = float(whole)
    if fraction is not None:
        number += float(fraction) / 10.0 ** len(fraction)
    return -number if sign else number


@cache
def _number_of_text() -> Any:
    from lxml import etree

    return etree.XPath("number($text)", regexp=False, smart_strings=False)


@cache
def _dummy() -> Any:
    from lxml import etree

    return etree.Element("none")
