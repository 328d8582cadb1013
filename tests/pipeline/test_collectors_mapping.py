"""Mapping files and what they make of single lines; no Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.pipeline.mapper import DUPLICATE, EMPTY, KINDS, NO_ENTITY, NO_TIME, UNREADABLE, WRONG_TYPE, Checked, Mapper
from hanse.pipeline.mapping import at_path, load_mapping

EXAMPLE = Path(__file__).parents[2] / "examples" / "bordeaux-air" / "mapping.toml"
AT_US = 1_769_860_800_000_000  # 2026-01-31T12:00:00Z
HEADER = ("station", "when", "no2", "note", "rain", "lat", "lon", "trust")
TEXT = """
[source]
name = "stations"
format = "csv"
delimiter = ";"
decimal = ","
missing = ["", "n/a", -200]
[entity]
id = "urn:x:{station}"
type = "Air"
lat = "lat"
lon = "lon"
[time]
column = "when"
format = "%d.%m.%Y %H:%M"
zone = "Europe/Paris"
[[attributes]]
name = "NO2"
column = "no2"
unit = "GQ"
min = 0.0
max = 400.0
scale = 2.0
offset = 1.0
quality = { precision = 80, timeliness = { rule = "timeliness", lifetime = 7200 } }
[[attributes]]
name = "note"
kind = "text"
[[attributes]]
name = "rain"
kind = "boolean"
[quality]
trust = { column = "trust" }
completeness = { rule = "completeness" }
consistency = { rule = "consistency" }
"""
MAPPER = Mapper(load_mapping(TEXT))


def checked(line: str, mapper: Mapper = MAPPER) -> list[Checked]:
    return mapper.checked(line, "a.csv", "2", AT_US, HEADER)


def kinds(line: str) -> list[str | None]:
    return [one.kind for one in checked(line)]


def test_a_line_becomes_observations_with_their_quality() -> None:
    (one,) = checked("7;31.01.2026 12:00;20,5;calm;yes;44,8;-0,5;60")
    assert (one.entity, one.kind, one.reason) == ("urn:x:7", None, None)
    said = one.said
    assert said is not None
    assert (said.type, said.lat, said.lon) == ("Air", 44.8, -0.5)
    no2, note, rain = said.observed
    observed = datetime(2026, 1, 31, 11, tzinfo=UTC)  # Paris is an hour ahead
    assert (no2.attribute, no2.value, no2.text, no2.unit) == ("NO2", 42.0, None, "GQ")
    assert no2.observed_us == int(observed.timestamp()) * 1_000_000
    assert no2.quality == {"trust": 60.0, "completeness": 100.0, "consistency": 100.0, "precision": 80.0, "timeliness": 50.0}
    assert (note.value, note.text, rain.text) == (None, "calm", "true")


def test_what_is_missing_is_not_there_and_lowers_completeness() -> None:
    for missing in ("", "n/a", "-200", "-200,0", " -2e2 "):
        (one,) = checked(f"7;31.01.2026 12:00;{missing};calm;;44,8;-0,5;60")
        assert one.said is not None
        assert [value.attribute for value in one.said.observed] == ["note"]
        assert one.said.observed[0].quality["completeness"] == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('7;"31.01', [UNREADABLE]),
        ("7;31.01.2026 12:00;1", [UNREADABLE]),
        (";31.01.2026 12:00;1;;;;;", [NO_ENTITY]),
        ("7;;1;;;;;", [NO_TIME]),
        ("7;31.02.2026 12:00;1;;;;;", [NO_TIME]),
        ("7;yesterday;1;;;;;", [NO_TIME]),
        ("7;31.01.2026 12:00;;;;;;", [EMPTY]),
        ("7;31.01.2026 12:00;much;;;;;", [WRONG_TYPE]),
        ("7;31.01.2026 12:00;much;calm;;;;", [None, WRONG_TYPE]),
        ("7;31.01.2026 12:00;1.5;calm;;;;", [None, WRONG_TYPE]),
        ("7;31.01.2026 12:00;1e999;calm;perhaps;;;", [None, WRONG_TYPE, WRONG_TYPE]),
        ("7;31.01.2026 12:00;1;;;100;0;", [None, WRONG_TYPE]),
        ("7;31.01.2026 12:00;1;calm;yes;;;very", [None, WRONG_TYPE]),
    ],
)
def test_what_is_wrong_is_kept_aside_and_the_rest_is_taken(line: str, expected: list[str | None]) -> None:
    assert kinds(line) == expected
    assert all(one.reason for one in checked(line) if one.kind)


@given(st.text() | st.lists(st.text(alphabet='0123456789.,-+eE:; "abc', max_size=8), min_size=8, max_size=8).map(";".join))
def test_no_line_stops_the_stream_or_is_lost(line: str) -> None:
    found = checked(line)
    assert found
    assert all(one.kind is None or (one.kind in KINDS and one.kind != DUPLICATE and one.reason) for one in found)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["id", "type", "no2", "location", "scope"]), json_values) | json_values)
def test_no_entity_of_another_broker_stops_the_stream_or_is_lost(entity: Any) -> None:
    mapper = Mapper(load_mapping('[source]\nname = "other"\nformat = "ngsi-ld"'))
    assert mapper.checked(msgspec.json.encode(entity).decode(), "http://other", "1", AT_US)


def test_entities_of_another_broker_are_taken_as_they_are() -> None:
    mapper = Mapper(load_mapping('[source]\nname = "other"\nformat = "ngsi-ld"\n[quality]\ntrust = 70'))
    entity = {
        "id": "urn:x:1",
        "type": ["Air", "A"],
        "scope": "/town",
        "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1.0, 2.0]}},
        "no2": {
            "type": "Property",
            "value": 3,
            "observedAt": "2026-01-31T12:00:00Z",
            "precision": {"type": "Property", "value": 5},
        },
        "name": "x",
    }
    good, wrong = mapper.checked(msgspec.json.encode(entity).decode(), "http://other", "1", AT_US)
    assert good.said is not None
    assert (good.said.type, good.said.scopes, good.said.lat, good.said.lon) == ("A", ["/town"], 2.0, 1.0)
    (no2,) = [one for one in good.said.observed if one.attribute == "no2"]
    assert (no2.value, no2.observed_us, no2.quality) == (3.0, AT_US, {"precision": 5.0, "trust": 70.0})
    assert wrong.kind == WRONG_TYPE


def test_topics_and_payloads_of_mqtt() -> None:
    text = """
    [source]
    name = "devices"
    format = "mqtt"
    [entity]
    id = "urn:x:{@topic[1]}"
    type = "Device"
    [[attributes]]
    name = "temperature"
    column = "{column}"
    """
    for column, payload in (("@payload", "21.5"), ("t.now[1]", '{"t": {"now": [1, 21.5]}}')):
        (one,) = Mapper(load_mapping(text.replace("{column}", column))).checked(payload, "town/7", "1", AT_US)
        assert one.said is not None
        assert (one.entity, one.said.observed[0].value, one.said.observed[0].observed_us) == ("urn:x:7", 21.5, None)


def test_rules_that_need_columns() -> None:
    rules = {
        "accuracy": ('{ rule = "accuracy", reference = "r", span = 100 }', 90.0),
        "precision": ('{ rule = "precision", columns = ["a", "r"], span = 100 }', pytest.approx(100 - 50**0.5)),
        "correctness": ('{ rule = "correctness", right = "a", checked = "r" }', 50.0),
        "trust": ('{ rule = "trust", kept = "a", broken = 10 }', 50.0),
        "spatialResolution": ('{ rule = "spatialResolution", area = "nothing" }', None),
    }
    for name, (rule, expected) in rules.items():
        entity = '[source]\nname = "s"\nformat = "jsonl"\n[entity]\nid = "x"\ntype = "T"\n'
        text = f'{entity}[[attributes]]\nname = "a"\nquality.{name} = {rule}'
        (one,) = Mapper(load_mapping(text)).checked('{"a": 10, "r": 20}', "f", "1", AT_US)
        assert one.said is not None
        assert one.said.observed[0].quality.get(name) == expected


@pytest.mark.parametrize(
    ("form", "text", "us"),
    [
        ("iso", "2026-01-31T12:00:00Z", AT_US),
        ("iso", "2026-01-31T13:00:00+01:00", AT_US),
        ("iso", "2026-01-31T12:00:00", AT_US),
        ("unix", "1769860800", AT_US),
        ("unix", "1769860800.25", AT_US + 250_000),
        ("unix-ms", "1769860800000", AT_US),
        ("%Y%m%d %H", "20260131 12", AT_US),
    ],
)
def test_forms_of_time(form: str, text: str, us: int) -> None:
    made = load_mapping(
        f'[source]\nname="s"\nformat="jsonl"\n[entity]\nid="x"\ntype="T"\n[time]\ncolumn="t"\nformat="{form}"\n[[attributes]]\nname="a"'
    )
    (one,) = Mapper(made).checked(msgspec.json.encode({"a": 1, "t": text}).decode(), "f", "1", AT_US)
    assert one.said is not None
    assert one.said.observed[0].observed_us == us


def test_lines_that_say_the_same_are_known_by_it() -> None:
    line = "7;31.01.2026 12:00;20,5;calm;yes;44,8;-0,5;60"
    first, again, other = (
        MAPPER.checked(one, "a.csv", str(n), AT_US + n, HEADER)[0] for n, one in enumerate([line, line, line.replace("20", "21")])
    )
    assert first.identity == again.identity != other.identity


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[source]", "[sorce]"), "sorce"),
        (('format = "csv"', 'format = "excel"'), "excel"),
        (("Europe/Paris", "Europe/Bordeaux"), "time zone"),
        (("precision = 80", "precison = 80"), "do you mean precision"),
        (("precision = 80", "precision = 180"), "from 0 to 100"),
        (('rule = "timeliness", lifetime = 7200', 'rule = "timeliness"'), "needs lifetime"),
        (('rule = "consistency"', 'rule = "magic"'), "magic"),
        (('name = "note"', 'name = "NO2"'), "twice"),
        (('lon = "lon"\n', ""), "lat and lon"),
        (("%d.%m.%Y %H:%M", "dd.mm.yyyy"), "dd.mm.yyyy"),
        (('decimal = ","', 'decimal = ","\nencoding = "klingon"'), "klingon"),
        (('kind = "text"', 'kind = "text"\nmax = 3'), "numbers"),
        (("[[attributes]]", "[[attributes]"), "TOML"),
    ],
)
def test_a_mapping_that_is_wrong_is_refused_in_words(change: tuple[str, str], words: str) -> None:
    assert change[0] in TEXT
    with pytest.raises(InvalidInput, match=words):
        load_mapping(TEXT.replace(change[0], change[1], 1))


def test_a_mapping_file_is_named_where_it_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_mapping(tmp_path / "none.toml")
    assert "none.toml" in str(caught.value)
    assert load_mapping(EXAMPLE).source.name == "uci-air"


def test_a_column_may_be_named_like_a_path() -> None:
    assert at_path({"a.b": 1, "a": {"b": 2, "c": [{"d": 3}]}}, "a.b") == 1
    assert at_path({"a": {"b": 2, "c": [{"d": 3}]}}, "a.c[0].d") == 3
    assert at_path({"a": {"b": 2}}, "a.b.c") is None
