"""A street's report as context: an NGSI-LD entity after the Smart Data Model AirQualityObserved, and INCOME's XML.

Both are made of the same observations, with the quality of each as its indicators.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from bordeaux.index import UNHEALTHY
from bordeaux.measurements import GASES
from bordeaux.streets import STREETS, Report, Street
from hanse.quality import Level, default_registry
from hanse.quality.indicators import Quality, quality
from hanse.quality.json_form import to_attribute
from hanse.quality.observation import Observation
from hanse.quality.xml_form import to_xml

TYPE: Final = "AirQualityObserved"
LEVEL: Final = "airQualityLevel"
INDEX: Final = "airQualityIndex"
POLLUTION: Final = "#pollution"  # the observable of the paper's listing
CORRECTNESS: Final = "correctness"
UNIT_CODES: Final = {gas.name: gas.unit_code for gas in GASES} | {"temperature": "CEL", "relativeHumidity": "P1"}

# Bob has asthma: he is to hear of air that is unhealthy for him, if that is right with at least medium correctness.
BOBS_Q: Final = f"{LEVEL}==" + ",".join(f'"{level}"' for level in UNHEALTHY)
BOBS_QUALITY: Final = f"{CORRECTNESS}>=medium"


def id_of(street: Street) -> str:
    return f"urn:ngsi-ld:{TYPE}:Bordeaux:{street.slug}"


STREET_OF: Final = {id_of(street): street for street in STREETS}


def moment(hour: datetime) -> str:
    return f"{hour:%Y-%m-%dT%H:%M:%SZ}"


def stated(report: Report, name: str) -> Quality:
    return quality(report.quality.get(name, {}), moment(report.statement.hour))


def observations(report: Report) -> list[Observation]:
    """All that a street says in an hour, each with its quality."""
    said = report.statement
    values: dict[str, Any] = {**said.values, INDEX: said.index.value, LEVEL: said.index.level}
    return [
        Observation(
            entity=id_of(report.street),
            entity_type=TYPE,
            observable=f"#{name}",
            value=value,
            at=moment(said.observed),
            unit_code=UNIT_CODES.get(name, ""),
            quality=stated(report, name),
        )
        for name, value in values.items()
    ]


def entity(report: Report) -> dict[str, Any]:
    """The street as an NGSI-LD entity. `dateObserved` is the hour that it speaks of; each value has its own observedAt."""
    street = report.street
    whole = {
        name: {"type": "Property", "value": value, "unitCode": "P1", "observedAt": moment(report.statement.hour)}
        for name, value in report.quality[""].items()
    }
    return {
        "id": id_of(street),
        "type": TYPE,
        "name": {"type": "Property", "value": street.name},
        "address": {"type": "Property", "value": {"streetAddress": street.name, "addressLocality": "Bordeaux"}},
        "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": list(street.position)}},
        "dateObserved": {"type": "Property", "value": moment(report.statement.hour)},
        **{one.attribute: to_attribute(one) for one in observations(report)},
        **whole,
    }


def document(report: Report) -> str:
    """The level in INCOME's XML, from the sensor that the paper names."""
    said = report.statement
    return to_xml(
        Observation(
            id=moment(said.hour),
            entity=report.street.sensor_uri,
            entity_type="Sensor",
            observable=POLLUTION,
            value=said.index.level,
            at=moment(said.observed),
            quality=stated(report, LEVEL),
        )
    )


def bobs_xpath(street: Street) -> list[str]:
    """Bob's wish for one street, as constraints on XML like those of the paper's listing 1: context, content, quality."""
    levels = " or ".join(f"value='{level}'" for level in UNHEALTHY)
    correctness = default_registry().criterion(CORRECTNESS)
    definition = correctness.definition
    assert definition.levels is not None
    indicator = f"@id='{correctness.id}' and qoccriterion[@id='{correctness.criterion_id}']"
    value = f"qocmetricvalue[@value >= '{definition.levels.medium:g}']"
    return [
        f"//observable[uri='{POLLUTION}' and entity[uri='{street.sensor_uri}']]",
        f"//observation[{levels}]",
        f"//qocindicator[{indicator}/qocmetricdefinition[@id='{definition.id}'] and {value}]",
    ]


def is_unhealthy(report: Report) -> bool:
    return report.statement.index.level in UNHEALTHY


def level_of_correctness(report: Report) -> Level | None:
    """Low, medium or high; None if it is not known."""
    found = stated(report, LEVEL).retrieve(CORRECTNESS)
    return None if found is None else found.level


def is_for_bob(report: Report) -> bool:
    """Both hold."""
    return is_unhealthy(report) and level_of_correctness(report) in ("medium", "high")
