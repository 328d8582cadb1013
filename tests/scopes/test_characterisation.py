"""The characterisation that a person writes: the example of the paper, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from hanse.model import InvalidInput
from hanse.scopes import Characterisation, load, parse
from hanse.scopes.characterisation import MAX_FILE_BYTES

EXAMPLE = Path(__file__).parents[2] / "examples" / "olympic-paris" / "characterisation.toml"
AREA, TRANSPORT, GROUP = "geographical area", "transport organisation", "membership"


@pytest.fixture(scope="module")
def paris() -> Characterisation:
    return load(EXAMPLE)


def test_figure_1_has_the_viewpoints_dimensions_and_scales_of_the_text(paris: Characterisation) -> None:
    assert {view.name: [d.name for d in view.dimensions] for view in paris.viewpoints} == {
        "geography": [AREA],
        "public transportation": [TRANSPORT],
        "user": [GROUP],
    }
    assert paris.dimension(AREA).scales == ("region", "department", "city", "quarter", "street", "building")
    assert paris.dimension(TRANSPORT).scales == ("intercity", "suburban", "area", "city", "dedicated destination")
    versailles = next(entry for entry in paris.dimension(AREA).scopes if entry.title == "Versailles")
    assert versailles.scale == "city"
    assert [broker.name for broker in paris.brokers] == [f"B{i}" for i in range(1, 14)]


def test_phebus_is_visible_to_roissy_but_not_to_the_tgv(paris: Characterisation) -> None:
    graph = paris.scopes().graphs[TRANSPORT]
    assert graph.visible("ph", "ro", {})
    assert "im" in graph.trace("ph", "ro", {}).path
    assert not graph.visible("ph", "st", {})
    assert len(graph.parents("ph")) > 1, "the city scale has a scope with several parents"
    assert graph.visible("ph", "t2", {}), "the shared station hears both organisations"
    assert graph.visible("st", "t2", {})
    assert not graph.visible("st", "ph", {}), "but it is no way from the one to the other"


def test_only_official_news_of_the_stadium_leave_the_department(paris: Characterisation) -> None:
    graph = paris.scopes().graphs[AREA]
    for official in (True, False):
        assert graph.visible("sf", "sm", {"official": official})
        assert graph.visible("sf", "idf", {"official": official}) is official
        assert graph.visible("sf", "ve", {"official": official}) is official


def test_free_parking_places_stay_in_their_quarter(paris: Characterisation) -> None:
    graph = paris.scopes().graphs[AREA]
    assert graph.visible("nd", "nd", {"kind": "parking"})
    assert not graph.visible("nd", "sl", {"kind": "parking"})
    assert graph.visible("nd", "sl", {"kind": "incident"})


def test_a_producer_may_keep_a_notification_in_its_group(paris: Characterisation) -> None:
    graph = paris.scopes().graphs[GROUP]
    assert graph.visible("uk", "fr", {"producerScopeOnly": False})
    assert not graph.visible("uk", "fr", {"producerScopeOnly": True})
    assert graph.visible("su", "uk", {"producerScopeOnly": True})


GOOD = """
[[viewpoints]]
name = "v"
[[viewpoints.dimensions]]
name = "area"
scales = ["region", "city", "street"]
scopes = [
  { name = "r", scale = "region" },
  { name = "c", scale = "city", parents = ["r"] },
]
[[brokers]]
name = "B1"
joins = { area = ["r"] }
[[brokers]]
name = "B2"
"""
LINKED = GOOD.replace("\n[[viewpoints]]", 'links = [["B1", "B2"]]\n[[viewpoints]]', 1)


def with_scope(scope: str) -> str:
    return GOOD.replace("]\n[[brokers]]", f"  {scope},\n]\n[[brokers]]", 1)


LARGER = "choose a parent of a larger scale"
NO_LARGER = f"{LARGER} (there is none)"

BAD = [
    ("title = " + 5000 * "1", "it has a number with thousands of digits; shorten it"),
    ("= 1", "it is not TOML: Invalid statement (at line 1, column 1); mend that line"),
    ("title = 'x'", "it lacks the member 'viewpoints'; the members are viewpoints, title, brokers, links"),
    ("viewpoints = []", "viewpoints: expected 'array' of length >= 1; give what is expected"),
    ("[[viewpoints]]\nname = 'v'", "viewpoint 'v': it lacks the member 'dimensions'; the members are name, dimensions"),
    ("colour = 'red'\n" + GOOD, "it has an unknown member 'colour'; the members are viewpoints, title, brokers, links"),
    (
        with_scope("{ name = 'x', scale = 'city', color = 1 }"),
        "dimension 'area', scope 'x': it has an unknown member 'color'; the members are name, scale, title, parents",
    ),
    (
        with_scope("{ name = 'x' }"),
        "dimension 'area', scope 'x': it lacks the member 'scale'; the members are name, scale, title, parents",
    ),
    (
        with_scope("{ scale = 'city' }"),
        "dimension 'area', scope 3: it lacks the member 'name'; the members are name, scale, title, parents",
    ),
    (
        with_scope("{ name = 'x', scale = 3 }"),
        "dimension 'area', scope 'x', scale: expected 'str', got 'int'; give what is expected",
    ),
    (
        with_scope("{ name = 'x', scale = 'city', parents = [{ name = 'r', inn = '' }] }"),
        "dimension 'area', scope 'x', parent 'r': it has an unknown member 'inn'; the members are name, out, into",
    ),
    (
        with_scope("{ name = 'x', scale = 'town' }"),
        "dimension 'area', scope 'x': there is no scale 'town'; choose one of region, city, street",
    ),
    (
        with_scope("{ name = 'x', scale = 'city', parents = ['q'] }"),
        "dimension 'area', scope 'x': its parent 'q' is no scope of this dimension; add it, or correct the name",
    ),
    (
        with_scope("{ name = 'x', scale = 'city', parents = ['c'] }"),
        f"dimension 'area', scope 'x': its parent 'c' has the scale 'city', which is not above 'city'; {LARGER} (region)",
    ),
    (
        with_scope("{ name = 'x', scale = 'region', parents = ['x'] }"),
        f"dimension 'area', scope 'x': its parent 'x' has the scale 'region', which is not above 'region'; {NO_LARGER}",
    ),
    (
        # a cycle always has an edge that does not go to a larger scale
        GOOD.replace('{ name = "r", scale = "region" }', "{ name = 'r', scale = 'region', parents = ['c'] }"),
        f"dimension 'area', scope 'r': its parent 'c' has the scale 'city', which is not above 'region'; {NO_LARGER}",
    ),
    (
        with_scope("{ name = 'x', scale = 'city', parents = ['r', 'r'] }"),
        "dimension 'area', scope 'x': the parent 'r' is given twice; keep one",
    ),
    (with_scope("{ name = 'c', scale = 'city' }"), "dimension 'area', scope 'c': the name is given twice; rename one of them"),
    (
        with_scope("{ name = '⊤', scale = 'city' }"),
        "⊤ cannot be the name of a scope of dimension 'area': it stands in for an unstated scope",
    ),
    (GOOD.replace('"street"', '"city"'), "dimension 'area', scale 'city': the name is given twice; rename one of them"),
    (
        GOOD.replace('name = "area"', 'name = "area"\nname = "b"'),
        "it is not TOML: Cannot overwrite a value (at line 6, column 11); mend that line",
    ),
    (
        GOOD + "[[viewpoints]]\nname = 'v'\ndimensions = [{ name = 'b', scales = ['x'] }]",
        "viewpoint 'v': the name is given twice; rename one of them",
    ),
    (
        GOOD + "[[viewpoints]]\nname = 'w'\n[[viewpoints.dimensions]]\nname = 'area'\nscales = ['x']",
        "dimension 'area': the name is given twice; rename one of them",
    ),
    (
        GOOD.replace('["region", "city", "street"]', "[]"),
        "dimension 'area', scales: expected 'array' of length >= 1; give what is expected",
    ),
    (GOOD.replace("area = [", "aera = ["), "broker 'B1': there is no dimension 'aera'; choose one of area"),
    (
        GOOD.replace('["r"] }\n[[', '["q"] }\n[['),
        "broker 'B1', dimension 'area': there is no scope 'q'; add it to the dimension, or correct the name",
    ),
    (GOOD.replace("B2", "B1"), "broker 'B1': the name is given twice; rename one of them"),
    (LINKED.replace('"B2"]]', '"B3"]]'), "link B1 - B3: 'B3' is no broker; add it to [[brokers]], or correct the name"),
    (LINKED.replace('"B2"]]', '"B1"]]'), "link B1 - B1: it joins a broker to itself; remove it"),
    (LINKED.replace('"B2"]]', '"B2"], ["B2", "B1"]]'), "link B1 - B2: it is given twice; links go both ways, so keep one"),
    (LINKED.replace('"B2"]]', '"B2", "B3"]]'), "link 1: expected 'array' of length 2, got 3; give what is expected"),
]


@pytest.mark.parametrize(("text", "line"), BAD, ids=[line[:50] for _, line in BAD])
def test_a_bad_file_is_one_line_with_place_and_remedy(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {line}"


def test_a_filter_that_does_not_compile_is_placed() -> None:
    with pytest.raises(InvalidInput, match=r"^dimension 'area', scope 'x', superscope 'r', visibility filter 'out': .+$"):
        parse(with_scope("{ name = 'x', scale = 'city', parents = [{ name = 'r', out = 'a==' }] }"))


def test_what_the_bad_files_are_made_of_is_good() -> None:
    assert parse(LINKED).placements("area") == {"r": ("B1",)}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "it cannot be read (No such file or directory); give the path of a characterisation in TOML"),
        (b"\xff\xfe", "it is not UTF-8 text; save it as UTF-8"),
        (b"#" * (MAX_FILE_BYTES + 1), f"it is larger than {MAX_FILE_BYTES} bytes; split it by dimension"),
        (b"a = " + b"[" * 50_000, "it is nested too deeply; a characterisation has viewpoints, dimensions and scopes"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_too(tmp_path: Path, content: bytes | None, line: str) -> None:
    file = tmp_path / "bad.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {line}"
