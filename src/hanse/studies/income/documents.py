"""The notifications and constraints of the paper: an observation with any number of indicators, and what its listing 1 asks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from hanse.quality import default_registry
from hanse.quality.indicators import Indicator, MetricValue, Quality
from hanse.quality.observation import Observation
from hanse.quality.xml_form import to_xml

if TYPE_CHECKING:
    from hanse.quality.criteria import Criterion

FIRST_ID: Final = 10  # precision, as in listing 1
AT: Final = "2014-06-12T08:30:00Z"
VALUE: Final = 80.0
ENTITY: Final = "bordeaux://thiersave./sensors/45/"

CONTEXT_CONSTRAINT: Final = f"//observable[uri='#pollution' and entity[uri='{ENTITY}']]"


@cache
def _patterns() -> list[Criterion]:
    """Criteria of the registry, precision first: what the indicators are made like, again and again."""
    primitive = [criterion for criterion in default_registry().by_name.values() if not criterion.rule]
    return sorted(primitive, key=lambda criterion: criterion.id != str(FIRST_ID))


def _indicator(number: int, value: float) -> Indicator:
    pattern = _patterns()[number % len(_patterns())]
    id_ = FIRST_ID + number
    definition = msgspec.structs.replace(pattern.definition, id=f"{id_}.1", min=None, max=None)
    return Indicator(
        criterion=pattern.name if number < len(_patterns()) else f"{pattern.name}{number}",
        id=str(id_),
        name=pattern.indicator_name,
        criterion_id=f"[{id_}.1]",
        definitions=(definition,),
        values=(MetricValue(value, AT, definition.id),),
    )


def notification(indicators: int, value: float = VALUE) -> str:
    """An observation of pollution with this many different indicators, in XML; all have the same value."""
    observation = Observation(
        id="1",
        entity=ENTITY,
        observable="#pollution",
        value=41.5,
        unit_code="GQ",
        at=AT,
        quality=Quality(tuple(_indicator(number, value) for number in range(indicators))),
    )
    return to_xml(observation)


def criterion_constraint(number: int = 0) -> str:
    """That the indicator of this number is there."""
    id_ = FIRST_ID + number
    return f"//qocindicator[@id='{id_}' and qoccriterion[@id='[{id_}.1]']/qocmetricdefinition[@id='{id_}.1']]"


def value_constraint(number: int = 0, least: float = 40) -> str:
    """That it is there, and has at least this value."""
    return f"{criterion_constraint(number)[:-1]} and qocmetricvalue[@value >= '{least:g}']]"
