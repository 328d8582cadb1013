"""The registry: what comes along, what a user's file does to it, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.quality import default_registry, load, told

OWN = """
[[criteria]]
id = "20"
name = "coverage"
uris = ["https://example.org/coverage"]
[[criteria.definitions]]
id = "20.1"
min = 0.0
max = 1.0
levels = { medium = 0.3, high = 0.7 }
"""


def with_(text: str, old: str = "", new: str = "") -> str:
    assert old in text
    return text.replace(old, new)


def test_the_starting_set() -> None:
    registry = default_registry()
    assert set(registry.names) == {
        *("freshness", "timeliness", "precision", "accuracy", "correctness"),
        *("completeness", "spatialResolution", "refreshRate", "trust", "consistency"),
    }
    lower = {name for name in registry.names if registry.by_name[name].definition.direction == "lower"}
    assert lower == {"freshness", "spatialResolution"}
    for criterion in registry.by_name.values():
        assert criterion.description
        assert criterion.uris
        assert criterion.definition.unit_code
        assert criterion.definition.id.startswith(f"{criterion.id}.")


def test_the_ids_of_the_paper() -> None:
    precision = default_registry().criterion("precision")
    assert (precision.id, precision.criterion_id, precision.definition.id) == ("10", "[10.1]", "10.1")
    assert precision.indicator_name == "PrecisionQoCIndicator"
    assert default_registry().of_id("10") is precision
    assert default_registry().of_id("99") is None


def test_uris_lead_to_criteria() -> None:
    registry = default_registry()
    for uri, name in (
        ("http://www.w3.org/ns/dqv#precision", "precision"),
        ("http://www.w3.org/2016/05/ldqd#completeness", "completeness"),
        ("urn:hanse:quality:freshness", "freshness"),
        ("https://uri.etsi.org/ngsi-ld/default-context/trust", "trust"),
    ):
        assert registry.of_uri(uri) is registry.by_name[name]
    assert registry.of_uri("https://uri.etsi.org/ngsi-ld/default-context/other") is None


def test_importing_is_cheap() -> None:
    code = (
        "import sys, hanse.quality, hanse.quality.xml_form, hanse.quality.criteria as c;"
        "print('lxml' in sys.modules, c.default_registry.cache_info().currsize)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False 0\n"


def test_a_short_name_in_ngsi_ld_leads_to_its_criterion() -> None:
    registry = default_registry()
    for name in registry.names:
        assert registry.of_uri(CORE.expand_term(name)) is registry.by_name[name]


def test_levels_follow_the_direction() -> None:
    registry = default_registry()
    correctness, freshness = registry.criterion("correctness").definition, registry.criterion("freshness").definition
    assert [correctness.level(value) for value in (0, 49.9, 50, 79.9, 80, 100)] == [
        "low",
        "low",
        "medium",
        "medium",
        "high",
        "high",
    ]
    assert [freshness.level(value) for value in (0, 60, 60.1, 600, 600.1)] == ["high", "high", "medium", "medium", "low"]
    assert (correctness.worse(1, 2), freshness.worse(1, 2)) == (1, 2)


def test_a_file_adds_and_replaces(tmp_path: Path) -> None:
    added = load(OWN)
    assert added.names == (*default_registry().names, "coverage")
    assert added.of_uri("https://example.org/coverage") is added.criterion("coverage")
    file = tmp_path / "own.toml"
    file.write_text(OWN.replace("coverage", "trust"), encoding="utf-8")
    replaced = load(file)
    assert replaced.names == default_registry().names
    assert replaced.criterion("trust").definition.max == 1
    assert default_registry().criterion("trust").definition.max == 100


def test_a_value_of_another_definition_is_rescaled() -> None:
    text = OWN + '[[criteria.definitions]]\nid = "20.2"\nmin = 0.0\nmax = 1000.0\nlevels = { medium = 300.0, high = 700.0 }\n'
    text += (
        '[[criteria.definitions]]\nid = "20.3"\ndirection = "lower"\nmin = 0.0\nmax = 10.0\nlevels = { medium = 5, high = 1 }\n'
    )
    text += '[[criteria.definitions]]\nid = "20.4"\nlevels = { medium = 5, high = 10 }\n'
    coverage = load(text).criterion("coverage")
    assert coverage.criterion_id == "[20.1, 20.2, 20.3, 20.4]"
    assert coverage.plain(0.25, "20.1") == 0.25
    assert coverage.plain(250, "20.2") == 0.25
    assert coverage.plain(2.5, "20.3") == 0.75
    assert coverage.plain(2.5, "20.4") is None  # it has no bounds
    assert coverage.plain(2.5, "20.1") is None  # beyond its range
    assert coverage.plain(float("nan"), "20.1") is None
    assert coverage.plain(0.25, "20.9") is None


def test_an_unknown_name_is_told_near_ones() -> None:
    with pytest.raises(InvalidInput, match=r"there is no criterion 'presision'; do you mean precision\?"):
        default_registry().criterion("presision")
    with pytest.raises(InvalidInput, match="choose one of spatialResolution, completeness"):
        default_registry().criterion("xyzzy")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[criteria]", "it is not TOML"),
        ("a = " + "[" * 5000, "nested too deeply"),
        ("a = 1" + "0" * 5000, "a number with thousands of digits"),
        (with_(OWN, "max = 1.0", 'max = 1.0\ndescription = "\\u0007"'), "the definition '20.1': the character U+0007 cannot"),
        ("other = 1", "unknown member 'other'; the members are criteria"),
        (with_(OWN, 'name = "coverage"'), "criterion 1: it lacks the member 'name'; the members are id, name"),
        (with_(OWN, 'id = "20.1"\n'), "criterion 'coverage', definition 1: it lacks the member 'id'"),
        (with_(OWN, ", high = 0.7"), "definition '20.1', levels: it lacks the member 'high'; the members are medium, high"),
        (with_(OWN, "min = 0.0", 'min = "x"'), "definition '20.1', min: expected 'float | null', got 'str'"),
        (with_(OWN, "min = 0.0", "min = 2.0"), "min 2 is not below its max 1"),
        (with_(OWN, "max = 1.0", "max = inf"), "max is inf; give a number, or leave it out"),
        (with_(OWN, "min = 0.0\nmax = 1.0", "min = -1.7e308\nmax = 1.7e308"), "from min to max is too far for a number"),
        (with_(OWN, "high = 0.7", "high = 1.7"), "high 1.7 is not within min and max"),
        (with_(OWN, "high = 0.7", "high = 0.3"), "higher is better, so the level high (0.3) must be above medium (0.3)"),
        (
            with_(OWN, "max = 1.0", 'max = 1.0\ndirection = "lower"'),
            "lower is better, so the level high (0.7) must be below medium",
        ),
        (with_(OWN, "max = 1.0", 'max = 1.0\ndirection = "up"'), "invalid enum value 'up'"),
        (with_(OWN, '"coverage"', '"a.b"'), "criterion 'a.b': its name is 'a.b'; a name has letters, digits and _ only"),
        (with_(OWN, '"coverage"', '"high"'), "its name is 'high', which means something else already"),
        (with_(OWN, '"coverage"', '"unitCode"'), "which means something else already; choose another"),
        (with_(OWN, 'id = "20"', 'id = "2 0"'), "the id '2 0' is not like 10"),
        (with_(OWN, 'id = "20"', 'id = "10"'), "the id '10' is that of 'precision' already"),
        (with_(OWN, 'id = "20.1"', 'id = "10.1"'), "the id '10.1' is that of 'precision' already"),
        (
            with_(OWN, "https://example.org/coverage", "urn:hanse:quality:trust"),
            "the URI 'urn:hanse:quality:trust' is that of 'trust'",
        ),
        (
            with_(OWN, "https://example.org/coverage", "https://uri.etsi.org/ngsi-ld/default-context/trust"),
            "default-context/trust' is that of 'trust' already",
        ),
        (OWN + OWN, "criterion 'coverage': the name is given twice"),
        (with_(OWN, 'id = "20"', 'id = "20"\nrule = "mean"'), "both a rule and parts"),
        (with_(OWN, 'id = "20"', 'id = "20"\nrule = "best"\nparts = ["trust"]'), "no rule 'best'; choose one of minimum"),
        (with_(OWN, 'id = "20"', 'id = "20"\nrule = "mean"\nparts = ["trusts"]'), "its part 'trusts' is no criterion"),
        (with_(OWN, 'id = "20"', 'id = "20"\nrule = "mean"\nparts = ["trust", "trust"]'), "the part 'trust' is given twice"),
        (with_(OWN, 'id = "20"', 'id = "20"\nrule = "mean"\nparts = ["freshness"]'), "'freshness' has no min or no max"),
        (with_(OWN, 'id = "20"', 'id = "20"\nrule = "mean"\nparts = ["trust"]\nweights = [1.0]'), "weights go with"),
        (with_(OWN, 'id = "20"', 'id = "20"\nrule = "weighted mean"\nparts = ["trust"]'), "weights go with"),
        (
            with_(OWN, 'id = "20"', 'id = "20"\nrule = "weighted mean"\nparts = ["trust"]\nweights = [1, 2]'),
            "1 parts and 2 weights",
        ),
        (
            with_(OWN, 'id = "20"', 'id = "20"\nrule = "weighted mean"\nparts = ["trust"]\nweights = [0]'),
            "one of them is more than 0",
        ),
        (
            with_(OWN, 'id = "20"', 'id = "20"\nrule = "mean"\nparts = ["coverage"]'),
            "computed from itself (coverage of coverage)",
        ),
    ],
)
def test_refusal(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        load(text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_definition_given_twice() -> None:
    twice = OWN + OWN[OWN.index("[[criteria.definitions]]") :]
    with pytest.raises(InvalidInput, match=r"the definition '20\.1' is given twice"):
        load(twice)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.toml: it cannot be read"):
        load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(InvalidInput, match=r"latin\.toml: it is not UTF-8"):
        load(tmp_path / "latin.toml")
    (tmp_path / "wrong.toml").write_text("other = 1", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"wrong\.toml: it has an unknown member"):
        load(tmp_path / "wrong.toml")
    (tmp_path / "large.toml").write_text("#" * (1 << 20) + "#", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"large\.toml: it is larger than"):
        load(tmp_path / "large.toml")


def test_what_a_registry_tells_is_the_same_registry_again() -> None:
    known = default_registry()
    assert told(msgspec.to_builtins(list(known.by_name.values()))) == known


@pytest.mark.parametrize("said", [None, "precision", [{"name": "precision"}], [{"id": "1", "name": "x", "definitions": []}]])
def test_what_tells_no_criteria_is_refused(said: Any) -> None:
    with pytest.raises(InvalidInput):
        told(said)
