"""XML and JSON carry the same observations; neither loses anything, and both say the same about quality."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from tests.quality.strategies import observations, usual_indicators

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.ngsild.parsing import parse_entity
from hanse.ngsild.quality import Measure
from hanse.quality import load
from hanse.quality.computed import seconds_of
from hanse.quality.indicators import Quality, indicator, quality
from hanse.quality.json_form import from_attribute, from_entity, to_attribute, to_entity
from hanse.quality.observation import Observation, quality_of
from hanse.quality.xml_form import from_xml, quality_of_xml, to_xml

AT = "2014-06-12T08:30:00Z"
POLLUTION = Observation(
    id="4711",
    entity="bordeaux://thiersave./sensors/45/",
    observable="#pollution",
    value=41.5,
    unit_code="GQ",
    at=AT,
    quality=quality({"precision": 80, "freshness": 5}, AT),
)
VOCABULARY = "https://uri.etsi.org/ngsi-ld/default-context/"


def exactly(one: Any) -> str:
    """As text, so that 1, 1.0 and true differ."""
    return repr(one)


@given(st.lists(observations, min_size=1, max_size=3))
def test_xml_to_json_and_back_loses_nothing(given_: list[Observation]) -> None:
    xml = to_xml(*given_)
    read = from_xml(xml)
    assert exactly(read) == exactly(tuple(given_))
    wire = [json.dumps(to_entity(one)) for one in read]
    back = tuple(found for text in wire for found in from_entity(json.loads(text)))
    assert exactly(back) == exactly(tuple(given_))
    assert to_xml(*back) == xml


@given(st.lists(observations, min_size=1, max_size=3), st.none() | st.floats(1e9, 2e9))
def test_what_is_read_of_any_xml_is_what_the_observations_say(given_: list[Observation], now: float | None) -> None:
    assert quality_of_xml(to_xml(*given_), now=now) == quality_of(given_, now=now)


plain_observations = st.builds(
    Observation,
    entity=st.just("urn:ngsi-ld:Sensor:1"),
    observable=st.sampled_from(["#pollution", "#NO2", "https://example.org/air#CO"]),
    value=st.integers(0, 9),
    at=st.none() | st.just(AT),
    quality=st.lists(usual_indicators(), max_size=3, unique_by=lambda one: one.criterion).map(lambda some: Quality(tuple(some))),
)


@given(st.lists(plain_observations, min_size=1, max_size=3, unique_by=lambda one: one.observable))
def test_a_node_reads_the_same_quality_of_both_forms(given_: list[Observation]) -> None:
    body: dict[str, Any] = {}
    for one in given_:
        body |= to_entity(one)
    entity = parse_entity(body, CORE, AT)
    now = "2014-06-12T08:31:00Z"
    found = Measure().of(entity.attributes, entity.types, now)
    assert found == quality_of_xml(to_xml(*given_), now=seconds_of(now), expand=CORE.expand_term)


def test_the_filters_of_the_paper_find_it() -> None:
    root = etree.fromstring(to_xml(POLLUTION))
    precise = "//qocindicator[@id='10' and qoccriterion[@id='[10.1]']/qocmetricdefinition[@id='10.1']{}]"
    assert root.xpath("//observable[uri='#pollution' and entity[uri='bordeaux://thiersave./sensors/45/']]")
    assert root.xpath(precise.format(""))
    assert root.xpath(precise.format(" and qocmetricvalue[@value >= '40']"))
    assert not root.xpath(precise.format(" and qocmetricvalue[@value >= '81']"))
    tiny = msgspec.structs.replace(POLLUTION, quality=quality({"precision": 1e-7}))
    assert etree.fromstring(to_xml(tiny)).xpath("//qocmetricvalue[@value < '0.1' and @value > 0]")  # no exponents in XPath
    assert root.xpath("string(//qocindicator[@id='10']/@name)") == "PrecisionQoCIndicator"


def test_the_form_in_xml() -> None:
    assert to_xml(msgspec.structs.replace(POLLUTION, quality=quality({"precision": 80}, AT))) == (
        '<notification><observation id="4711" date="2014-06-12T08:30:00Z"><observable><uri>#pollution</uri>'
        "<entity><uri>bordeaux://thiersave./sensors/45/</uri><type>Thing</type></entity></observable>"
        '<value type="number" unitcode="GQ">41.5</value><qocindicator id="10" name="PrecisionQoCIndicator">'
        '<qoccriterion id="[10.1]" name="precision"><qocmetricdefinition id="10.1" name="Repeatability" isinvariant="false" '
        'unit="percent" unitcode="P1" direction="UPPER" minvalue="0" maxvalue="100" defaultvalue="0" mediumlevel="40" '
        'highlevel="80"><informaldescription>100 less the spread, in percent of the span.</informaldescription>'
        "<keyword>repeatability</keyword><keyword>spread</keyword><keyword>resolution</keyword></qocmetricdefinition>"
        '</qoccriterion><qocmetricvalue value="80" creationdate="2014-06-12T08:30:00Z" definition="10.1"/></qocindicator>'
        "</observation></notification>"
    )


def test_the_form_in_json_is_short_where_the_registry_says_the_rest() -> None:
    assert to_entity(POLLUTION) == {
        "id": "bordeaux://thiersave./sensors/45/",
        "type": "Thing",
        "pollution": {
            "type": "Property",
            "value": 41.5,
            "observedAt": AT,
            "unitCode": "GQ",
            "observationId": {"type": "Property", "value": "4711"},
            "precision": {"type": "Property", "value": 80.0, "observedAt": AT, "unitCode": "P1"},
            "freshness": {"type": "Property", "value": 5.0, "observedAt": AT, "unitCode": "SEC"},
        },
    }


def test_criteria_may_be_named_by_their_uris() -> None:
    attribute = {
        "type": "Property",
        "value": 1,
        "http://www.w3.org/ns/dqv#precision": [{"type": "Property", "value": 80}],
        VOCABULARY + "trust": {"type": "Property", "value": 7},
    }
    found = from_attribute([attribute], entity="urn:a:1", name="pollution")
    assert found.quality.values() == {"precision": 80, "trust": 7}


# --- quality of what others write -------------------------------------------------------------------------------------


def test_composites_come_along() -> None:
    registry = load(
        '[[criteria]]\nid = "30"\nname = "reliability"\nrule = "minimum"\nparts = ["trust", "accuracy"]\n'
        '[[criteria.definitions]]\nid = "30.1"\nmin = 0\nmax = 10\n'
    )
    stated = msgspec.structs.replace(POLLUTION, quality=quality({"trust": 60, "accuracy": 30}))
    expected = {"pollution.reliability": 3, "reliability": 3}
    found = quality_of_xml(to_xml(stated), registry)
    assert found.items() >= expected.items()
    assert quality_of([stated], registry) == found


def test_quality_of_any_xml() -> None:
    text = """<report><!-- a comment --><observation date="2014-06-12T10:30:00+02:00"><observable><uri> #NO2 </uri></observable>
      <metadata><qocindicator id="10"><qocmetricvalue value=" 55 " definition=""/></qocindicator></metadata>
      <qocindicator name="TrustQoCIndicator"><qocmetricvalue value="1"/><qocmetricvalue value="7"/></qocindicator>
      <qocindicator id="9"><qoccriterion name="AccuracyQoCCriterion"><qocmetricdefinition id="9.1"/></qoccriterion>
        <qocmetricvalue value="66"/></qocindicator>
      <qocindicator id="8"><qoccriterion><qocmetricdefinition id="8.1" unitcode="MTR"/></qoccriterion>
        <qocmetricvalue value="66"/></qocindicator>
      <qocindicator id="11"><qocmetricvalue value="lots"/></qocindicator>
      <qocindicator id="12"/><qocindicator id="99"><qocmetricvalue value="7"/></qocindicator>
      <qocindicator id="13"><qocmetricvalue value="101"/></qocindicator>
    </observation><qocindicator id="16"><qocmetricvalue value="50"/></qocindicator>
    <observation><observable><uri>https://x/CO</uri></observable><qocindicator id="10"><qocmetricvalue value="50"/></qocindicator>
    </observation></report>"""
    expected = {"NO2.precision": 55, "NO2.trust": 7, "NO2.accuracy": 66, "https://x/CO.precision": 50}
    expected |= {"precision": 50, "trust": 7, "accuracy": 66, "timeliness": 50}
    assert quality_of_xml(text) == expected
    aged = expected | {"NO2.freshness": 10, "freshness": 10}
    assert quality_of_xml(text, now=1402561810.0) == aged
    assert quality_of_xml(text, expand=lambda name: VOCABULARY + name)[f"{VOCABULARY}NO2.trust"] == 7
    assert quality_of_xml("<other/>") == {}


# --- what is refused --------------------------------------------------------------------------------------------------

XML = to_xml(POLLUTION)
DEFINITION = '<qocmetricdefinition id="10.1"'


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (XML, "<a", "not well-formed XML"),
        (XML, "", "not well-formed XML"),
        (XML, "<a/>", "<a> is no notification; begin with <notification> or <observation>"),
        (XML, "<notification/>", "1 to 1000 observations, not 0"),
        (XML, '<!DOCTYPE n [<!ENTITY a "b">]><n>&a;</n>', "document type"),
        ("<observable>", "<observable><x/>", "<observable> has an unknown element <x> (uri, entity)"),
        ("<observable>", "<observable>hm", "<observable> has text in it, 'hm'"),
        ("<observable>", '<observable a="1">', "<observable> has an unknown attribute 'a' (it has none)"),
        ("<uri>#pollution</uri>", "", "<observable> has 0 elements <uri>; give one"),
        ("<uri>#pollution</uri>", "<uri>a</uri><uri>b</uri>", "<observable> has 2 elements <uri>; give one"),
        ("#pollution", "pollution", "the observable 'pollution' is no URI; write it like #pollution"),
        ("#pollution", "#type", "the observable '#type' is no URI"),
        ("bordeaux://", "", "is no URI; write it like urn:ngsi-ld:Sensor:45"),
        ('date="2014-06-12T08:30:00Z"', 'date="yesterday"', "the time of the observation is not a time: 'yesterday'"),
        ('value="80"', 'value="lots"', "<qocmetricvalue value> is 'lots'; give a number"),
        ('value="80"', 'value="1e999"', "is '1e999'; give a number"),
        ('value="80" ', "", "<qocmetricvalue> has no value"),
        ('definition="10.1"', 'definition="10.9"', "a value by the definition '10.9', which it lacks"),
        ('direction="UPPER"', 'direction="UP"', "it is UPPER or LOWER"),
        (' mediumlevel="40"', "", "one of mediumlevel and highlevel"),
        (DEFINITION, "<qocmetricdefinition", "<qocmetricdefinition> has no id"),
        ('isinvariant="false"', 'isinvariant="no"', "'no' is neither true nor false"),
        ('name="precision"', 'name="freshness"', "two indicators of 'freshness'"),
        ('name="precision"', 'name="a b"', "the criterion of an indicator is 'a b'; a name has letters"),
        ('type="number"', 'type="json"', ""),
        ('type="number"', 'type="boolean"', "neither true nor false"),
        ('type="number"', 'type="list"', "it is number, text, boolean or json"),
        ("41.5<", "x<", "<value> is 'x'; give a number"),
        ("<type>Thing</type>", "<type/>", "the type of the entity is empty"),
        ('unit="percent"', f'unit="{"a" * 2049}"', "the definition '10.1': a text has 2049 characters; 2048 are allowed"),
        ('unitcode="P1"', f'unitcode="{"a" * 101}"', "the definition '10.1': a text has 101 characters; 100 are allowed"),
        ("<keyword>", "<keyword>a</keyword>" * 32 + "<keyword>", "the definition '15.1' has 35 keywords; 32 are allowed"),
        ("</informaldescription>", "</informaldescription><relateddefinition/>", "has an empty id, or one of a related one"),
    ],
)
def test_xml_that_is_refused(old: str, new: str, says: str) -> None:
    assert old in XML
    text = XML.replace(old, new, 1)
    if not says:
        assert from_xml(text)[0].value == 41.5
        return
    with pytest.raises(InvalidInput) as error:
        from_xml(text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_comments_are_no_part_of_a_name() -> None:
    text = XML.replace("#pollution", "#poll<!-- a comment -->ution")
    assert quality_of_xml(text) == quality_of_xml(XML) != {}
    assert from_xml(text) == from_xml(XML)


def test_what_the_paper_leaves_out_need_not_be_written() -> None:
    text = (
        "<observation><observable><uri>#pollution</uri><entity><uri>urn:a:1</uri></entity></observable><value>7</value>"
        '<qocindicator id="15"><qoccriterion id="[15.1]"><qocmetricdefinition id="15.1"/></qoccriterion>'
        '<qocmetricvalue value="40"/></qocindicator></observation>'
    )
    (found,) = from_xml(text)
    assert (found.value, found.entity_type, found.quality.names) == (7, "Thing", ("freshness",))
    assert found.quality.values() == {"freshness": 40}  # the direction is the registry's
    assert from_xml(to_xml(found)) == (found,)


ATTRIBUTE = to_attribute(POLLUTION)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"type": "Relationship"}, "pollution: it is no Property in normalized form"),
        ({"observedAt": 5}, "pollution: its observedAt is no text"),
        ({"observedAt": "now"}, "is not a time"),
        ({"value": None}, "is null"),
        ({"value": {"a": [None]}}, "has null in it"),
        ({"precision": {"type": "Property", "value": 5, "qocIndicator": {"type": "Property", "value": "\ud800"}}}, "surrogates"),
        ({"value": float("nan")}, "give a finite number"),
        ({"value": 10**400}, "beyond what a double holds"),
        ({"value": "a\x00"}, "U+0000 cannot stand in XML"),
        ({"value": {"a": ["\ud800"]}}, "U+D800 cannot stand in XML"),
        ({"value": (1,)}, "is a tuple; give JSON"),
        ({"value": "a" * 70_000}, "65536 are allowed"),
        ({"colour": {"type": "Property", "value": 1}}, "pollution.colour: it is no criterion of quality"),
        ({"precision": {"type": "Property", "value": "x"}}, "pollution.precision: its value is no number"),
        ({"precision": {"type": "Property", "value": 5, "unitCode": "MTR"}}, "precision is not measured in the unit 'MTR'"),
        ({"precision": {"type": "Property", "value": 5, "by": {}}}, "an indicator has no 'by'"),
        ({"precision": {"type": "Property", "value": 5, "qocIndicator": {"type": "Property", "value": {}}}}, "required field"),
        ({"observationId": {"type": "Property", "value": 5}}, "pollution.observationId: its value is no text"),
        ({"http://www.w3.org/ns/dqv#precision": ATTRIBUTE["precision"]}, "two indicators of 'precision'"),
    ],
)
def test_json_that_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        from_attribute(ATTRIBUTE | change, entity="urn:a:1", name="pollution")
    assert says in str(error.value)


def test_a_value_that_contradicts_its_indicator() -> None:
    two = msgspec.structs.replace(indicator("trust", 5), name="other")
    attribute = to_attribute(msgspec.structs.replace(POLLUTION, quality=quality({}).add(two)))
    assert attribute["trust"]["qocIndicator"]["value"]["name"] == "other"
    attribute["trust"]["value"] = 6
    with pytest.raises(InvalidInput, match="its value is not the latest"):
        from_attribute(attribute, entity="urn:a:1", name="pollution")


def test_entities_that_are_refused() -> None:
    for entity, says in (
        ({"type": "A"}, "no id"),
        ({"id": "urn:a:1"}, "no type"),
        ({"id": "urn:a:1", "type": ["A", "B"]}, "several"),
    ):
        with pytest.raises(InvalidInput, match=says):
            from_entity(entity)
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(InvalidInput, match="nested more than 32 deep"):
        msgspec.structs.replace(POLLUTION, value=deep)
    with pytest.raises(InvalidInput, match="1 to 1000 observations"):
        to_xml()
