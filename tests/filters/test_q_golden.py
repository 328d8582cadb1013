"""The query language on the examples of ETSI GS CIM 009 clause 4.9, and on each rule of its text."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from hanse.filters import Atom, compile_q, rename_attributes, values_at

CAR: dict[str, Any] = {
    "brandName": {"type": "Property", "value": "Mercedes"},
    "speed": {"type": "Property", "value": 80, "unitCode": "KMH", "observedAt": "2017-12-24T12:00:00Z"},
    "rpm": {"value": 2500},
    "color": {"type": "Property", "value": ["blue", "red", "green"]},
    "parked": {"type": "Property", "value": False},
    "temperature": 30.5,
    "isMonitoredBy": {
        "type": "Relationship",
        "object": "urn:ngsi-ld:Sensor:1",
        "observedAt": "2018-01-01T00:00:00.5Z",
        "accuracy": {"type": "Property", "value": 0.9},
    },
    "address": {"type": "Property", "value": {"city": "Berlin", "geo": {"zip": 10115}}},
    "sensor": {
        "type": "Property",
        "value": "s1",
        "rawdata": {"type": "Property", "value": {"airquality": {"particulate": 40}}},
    },
    "name": {"type": "LanguageProperty", "languageMap": {"en": "Cologne", "de": ["Köln", "Cöln"]}},
    "data": {"type": "JsonProperty", "json": {"id": "x", "value": 3}},
    "status": {"type": "VocabProperty", "vocab": "moving"},
    "stops": {"type": "ListProperty", "valueList": [3, 5]},
    "drivers": {"type": "ListRelationship", "objectList": [{"object": "urn:a:1"}, {"object": "urn:a:2"}]},
    "level": [
        {"type": "Property", "value": 1, "datasetId": "urn:d:1", "by": {"value": "me"}},
        {"type": "Property", "value": 9, "datasetId": "urn:d:2", "by": {"value": "you"}},
    ],
    "built": {"type": "Property", "value": {"@type": "Date", "@value": "2016-05-01"}},
    "opens": {"type": "Property", "value": "08:30:00Z"},
    "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [13.4, 52.5]}},
    "nothing": {"type": "Property", "value": None},
    "broken": float("nan"),
    "empty": [],
    "one": {"type": "Property", "value": 1},
    "groups": [{"value": 1, "tags": []}, {"value": 2}],
    "https://uri.etsi.org/ngsi-ld/default-context/speed": {"value": 7, "https://example.org/v1.2/precision": 3},
}

GOLDEN = [
    # the examples of the specification
    ('speed>50;brandName!="Mercedes"', False),
    ('speed>50;brandName!="BMW"', True),
    ("temperature==20..40", True),
    ("temperature==31..40", False),
    ('brandName=="Mercedes","BMW"', True),
    ('brandName!="Mercedes","BMW"', False),
    ('(speed>50|rpm>3000);brandName=="Mercedes"', True),
    ('(speed>90|rpm>3000);brandName=="Mercedes"', False),
    ('speed>90|rpm>2000;brandName=="Mercedes"', True),
    ('speed>50|rpm>3000;brandName=="BMW"', True),  # AND binds tighter
    ("isMonitoredBy", True),
    ("isMonitoredBy.observedAt>=2017-12-24T12:00:00Z", True),
    ("isMonitoredBy.observedAt<2017-12-24T12:00:00Z", False),
    ('address[city]=="Berlin"', True),
    ("address[geo.zip]==10115", True),
    ("address[geo][zip]==10115", True),
    ("sensor.rawdata[airquality.particulate]==40", True),
    ('color=="red"', True),
    ('color=="black","red"', True),
    ('color!="red"', False),
    ('color!="black"', True),
    ('isMonitoredBy=="urn:ngsi-ld:Sensor:1"', True),
    ("isMonitoredBy==urn:ngsi-ld:Sensor:1", True),
    ("isMonitoredBy.accuracy>=0.9", True),
    # kinds
    ("parked==false", True),
    ("parked!=true", True),
    ("parked==0", False),
    ("speed==true", False),
    ("one==true", False),
    ("one!=true", True),
    ('speed=="80"', False),
    ('speed!="80"', True),
    ('speed>"7"', False),
    ("brandName>5", False),
    ("brandName!=5", True),
    ('brandName>="Mercedes";brandName<"N"', True),
    ('brandName=="L".."N"', True),
    ("speed==80,true", True),
    ("speed==8e1", True),
    ("speed>-1.5", True),
    ("speed>80", False),
    ("speed<80", False),
    ("speed>=80;speed<=80", True),
    # moments
    ("speed.observedAt==2017-12-24T13:00:00+01:00", True),
    ('speed.observedAt=="2017-12-24T13:00:00,000+0100"', True),
    ("speed.observedAt==2017-12-24", False),
    ("speed.observedAt>2017-12-24", True),
    ("speed.observedAt==2017-12-24..2017-12-25", True),
    ("isMonitoredBy.observedAt>2018-01-01T00:00:00,499Z", True),
    ("isMonitoredBy.observedAt==2018-01-01T00:00:00.5Z", True),
    ("built<2017-01-01", True),
    ("built==2016-05-01T00:00:00Z", True),
    ("opens>=08:30:00Z;opens<09:00:00Z", True),
    ("opens==09:30:00+01:00", True),
    ("opens>2017-01-01", False),
    ("opens<2017-01-01", False),
    ("opens!=2017-01-01", True),
    # patterns
    ("brandName~=^Mer", True),
    ("brandName~=ced", True),
    ('brandName~="(BMW|Merc)"', True),
    ("(brandName~=^BMW|speed>1)", True),
    ("brandName!~=^Mer", False),
    ("brandName!~=^BMW", True),
    ("color~=^re", True),
    ("color!~=^re", False),
    ("speed~=8", False),
    ("speed!~=8", True),
    ("missing!~=8", False),
    ("name~=^K.ln$", True),
    # one word needs no quotes
    ("brandName==Mercedes", True),
    ("brandName!=Mercedes", False),
    ("status==moving,parked;parked==false", True),
    ("brandName==truemercedes", False),
    # a relationship is equal or unequal, and nothing else
    ('isMonitoredBy>"urn:a"', False),
    ('isMonitoredBy<="urn:z"', False),
    ("isMonitoredBy~=Sensor", False),
    ("isMonitoredBy!~=nothing", False),
    ("isMonitoredBy!=urn:x:1", True),
    ('drivers>"urn:a"', False),
    ("drivers~=urn", False),
    ('isMonitoredBy=="urn:a".."urn:z"', True),
    # what is there, and what is not
    ("!missing", True),
    ("!missing;speed>50", True),
    ("!speed|brandName==BMW", False),
    ("!speed.missing", True),
    ("!address[city]", False),
    ("!nothing", True),
    ("!empty", False),
    ("missing", False),
    ("missing==1", False),
    ("missing!=1", False),
    ("speed.missing!=1", False),
    ("address[missing]!=1", False),
    ("nothing", False),
    ("nothing!=1", False),
    ("broken", False),
    ("broken!=1", False),
    ("empty", True),
    ("empty==1", False),
    ("empty!=1", True),
    ("location", True),
    ("location!=1", True),
    ('location=="Point"', False),
    ('location[type]=="Point"', True),
    ("location[coordinates]>50", True),
    ("speed.unitCode", True),
    ('speed.unitCode=="KMH"', True),
    # the other kinds of attribute
    ('name=="Köln"', True),
    ('name[en]=="Cologne"', True),
    ('name[fr]=="Cologne"', False),
    ('name[de]=="Cöln"', True),
    ('name[*]=="Cöln"', True),
    ("data[value]==3", True),
    ("data", True),
    ('status=="moving"', True),
    ("stops==5", True),
    ('drivers=="urn:a:2"', True),
    ("level>8", True),
    ("level!=9", False),
    ('level.by=="you"', True),
    ("level.datasetId==urn:d:2", True),
    ("groups.tags", True),
    # two elements may satisfy two terms
    ("level>8;level<2", True),
    # names that are URIs, blanks
    ("https://uri.etsi.org/ngsi-ld/default-context/speed==7", True),
    ("https://uri.etsi.org/ngsi-ld/default-context/speed.https://example.org/v1.2/precision==3", True),
    (" ( speed > 50 ; ( rpm == 2500 ) ) ", True),
    ("", True),
    ("  ", True),
]


@pytest.mark.parametrize(("text", "expected"), GOLDEN)
def test_example(text: str, expected: bool) -> None:
    query = compile_q(text)
    assert query.matches(CAR) is expected
    atoms_hold = all(atom.holds(values_at(CAR, atom.path)) for atom in query.atoms)
    assert (atoms_hold and (query.residual is None or query.residual(CAR))) is expected
    again = compile_q(query.canonical)
    assert again == query
    assert again.canonical == query.canonical


def test_an_entity_without_attributes_satisfies_no_term_but_that_it_lacks_some() -> None:
    asked = [text for text, _ in GOLDEN if text.strip()]
    assert [text for text in asked if not text.startswith("!") and compile_q(text).matches({})] == []
    assert compile_q("!missing").matches({})


def test_atoms_are_the_conjuncts_an_index_can_hold() -> None:
    query = compile_q('speed==20..40;brandName=="BMW";rpm;(a|b);name~="x"')
    assert set(query.atoms) == {
        Atom("speed", "number", 20.0, 40.0),
        Atom("brandName", "text", "BMW", "BMW"),
        Atom("rpm", "exists"),
    }
    assert query.residual_key == '(a|b);name~="x"'


def test_a_filter_of_atoms_alone_has_no_residual() -> None:
    query = compile_q("speed>50;speed<=90")
    assert query.residual is None
    assert query.residual_key == ""


def test_open_bounds_exclude_exactly_the_bound() -> None:
    above = compile_q("a>50")
    assert not above.matches({"a": 50})
    assert above.matches({"a": 50.00000000000001})
    assert compile_q("a>1.7976931348623157e308").matches({"a": float("inf")})
    assert compile_q("a>1e308").matches({"a": 10**400})


def test_numbers_are_doubles() -> None:
    assert compile_q("a==9007199254740992").matches({"a": 2**53 + 1})
    assert not compile_q("a==1").matches({"a": True})


def test_filters_that_say_the_same_are_equal() -> None:
    one, other = compile_q('a==1;(b=="x","y"|c)'), compile_q(' ( c | b == "y","x" ) ; a==1.0;a==1')
    assert one == other
    assert hash(one) == hash(other)
    assert one != compile_q("a==1")


def test_a_filter_survives_pickling() -> None:
    query = compile_q("speed>50|rpm")
    assert pickle.loads(pickle.dumps(query)) == query


def test_attributes_can_be_renamed() -> None:
    expanded = rename_attributes('speed.observedAt>5;a[city]=="x"', lambda name: f"https://example.org/v1.0/{name}")
    assert compile_q(expanded).atoms == (
        Atom("https://example.org/v1.0/a[city]", "text", "x", "x"),
        Atom("https://example.org/v1.0/speed.https://example.org/v1.0/observedAt", "number", 5.000000000000001, float("inf")),
    )
