"""Requirements on quality: every indicator named is present and satisfies what is asked."""

from __future__ import annotations

import pickle

import pytest

from hanse.filters import Atom, compile_q, compile_quality, flat_getter
from hanse.model import InvalidInput

QUALITY: dict[str, float | str] = {"temperature.precision": 50.0, "freshness": 30, "trust": "high", "broken": float("nan")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("temperature.precision>=40;freshness<=60", True),
        ("temperature.precision>=60;freshness<=60", False),
        ("temperature.precision==40..60", True),
        ("temperature.precision", True),
        ("(freshness<60;trust)", True),
        ('trust=="high"', True),
        ('trust=="high","highest"', True),
        ('trust!="low"', True),
        ('missing!="low"', False),
        ("missing", False),
        ("temperature>=40", False),
        ("temperature.missing>0", False),
        ("trust>1", False),
        ("broken", False),
        ("broken>=0", False),
    ],
)
def test_requirement(text: str, expected: bool) -> None:
    requirement = compile_quality(text)
    assert requirement.matches(QUALITY) is expected
    atoms_hold = all(atom.holds(flat_getter(atom.path)(QUALITY)) for atom in requirement.atoms)
    assert (atoms_hold and (requirement.residual is None or requirement.residual(QUALITY))) is expected


def test_an_atom_names_the_whole_indicator() -> None:
    assert compile_quality("temperature.precision>=40").atoms == (Atom("temperature.precision", "number", 40.0, float("inf")),)


def test_a_requirement_is_no_query() -> None:
    requirement = compile_quality("freshness<=60")
    assert requirement != compile_q("freshness<=60")
    assert pickle.loads(pickle.dumps(requirement)) == requirement


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a>1|b>1", "joins its parts by ';' only"),
        ("a>1;(b>1|c>1)", "joins its parts by ';' only"),
        ('a~="x"', "has no patterns"),
        ("a[b]>1", "without brackets"),
        ("a==true", "use a number or a text"),
        ("a>2017-12-24", "use a number or a text"),
        ('a>"low"', "levels have no order"),
        ("a>", "column 3"),
    ],
)
def test_refusal(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as error:
        compile_quality(text)
    assert complaint in str(error.value)
