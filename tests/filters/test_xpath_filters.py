"""XPath constraints: what they mean, what is refused and how, and that the atoms of an index say the same."""

from __future__ import annotations

import pickle
from math import isnan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.xml_examples import LISTING_1, OBSERVATION, documents, quality_constraints

from hanse.filters import compile_xpath
from hanse.filters.xpath import indicator_values, lane_shape, xpath_number
from hanse.filters.xpath_grammar import MAX_DESCENTS, MAX_NESTING, MAX_PREDICATES, MAX_STEPS
from hanse.model import InvalidInput, parse_xml
from hanse.model.values import MAX_XPATH_LENGTH

SHELF = """<shelf>
  <book lang='de' pages='300'><title> Tonio  Kröger </title></book>
  <book lang='en'><title>Ulysses</title></book>
</shelf>"""


@pytest.mark.parametrize("constraint", LISTING_1)
def test_the_paper_s_constraints_hold_for_the_paper_s_observation(constraint: str) -> None:
    assert compile_xpath(constraint).matches(parse_xml(OBSERVATION))
    assert not compile_xpath(constraint).matches(
        parse_xml(OBSERVATION.replace('"45"', '"39"').replace("10.1", "9").replace("#", ""))
    )


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ("/shelf/book", True),
        ("/book", False),
        ("//book[@lang='de' and title]", True),
        ("//book[not(@pages)]/title='Ulysses'", True),
        ("//book[@pages > 300 or @lang='fr']", False),
        ("//book[@pages >= 300]", True),
        ("300 <= //book/@pages", True),
        ("//book/@pages = -300", False),
        ("//book[contains(title, 'Kr')]", True),
        ("//book[starts-with(normalize-space(title), 'Tonio K')]", True),
        ("//book[starts-with(title, 'Tonio')]", False),
        ("count(//book) = 2", True),
        ("count(//book[@lang='de']) > 1", False),
        ("//*[. = 'Ulysses']", True),
        ("/*/*[@*='en']", True),
        ("//shelf[.//title='Ulysses']", True),
        ("number(//book/@pages) < 301", True),
        ("//@lang != 'de'", True),
        ("not(//@id)", True),
        ("//book[(title or x) and (@lang='en' or @lang='fr')]", True),
        ("//book[@pages > 'many']", False),
        ("//or[and and or]", False),
    ],
)
def test_what_a_constraint_means(constraint: str, holds: bool) -> None:
    assert compile_xpath(constraint).matches(parse_xml(SHELF)) is holds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("//a//b", "column 3: a path has one // at most; write //a[.//b] for //a//b"),
        ("//a[1]", "column 5: brackets hold a condition; positions like [1] are none"),
        ("//a[count(b)]", "column 5: brackets hold a condition"),
        ("//a[../b]", "column 5: a filter does not go upward"),
        ("ancestor::a", "column 9: a filter has the child and attribute axes only"),
        ("//x:a", "column 4: a filter knows no prefixes"),
        ("//a/text()", "column 9: a path has names as steps"),
        ("//a[position()=1]", "column 5: position is no function of a filter; there are contains, count"),
        ("document('file:///etc/passwd')", "column 1: document is no function of a filter"),
        ("re:test(//a, 'x')", "column 3: a filter knows no prefixes"),
        ("//a[//b]", "column 7: inside brackets a path starts from where it stands"),
        ("a/b", "column 1: a path begins with / or //"),
        ("//a | //b", "column 5: a filter does not unite paths"),
        ("//a[$x]", "column 5: a filter has no variables"),
        ("//a[@x=@y]", "column 6: a comparison has a path on one side"),
        ("//a[b + 1 = 2]", "column 7: a filter does not calculate"),
        ("//a[.//b[.//c]]", "column 13: a .// stands inside the brackets of another"),
        ("//a[.//b[c[.//d]]]", "inside the brackets of another"),
        ("//a[@b/c]", "column 8: an attribute is the last step"),
        ("//a[@b[c]]", "an attribute has no brackets"),
        ("//a[contains(b)]", "column 5: contains is used like contains(path, 'text')"),
        ("//a[not(b) = 'x']", "column 5: a condition is true or not"),
        ("//a[", "column 5: the XPath ends where there should be a path"),
        ("//a]", "column 4: ']' stands where there should be"),
        ("//", "column 3: the XPath ends where there should be a name"),
        ("'a'", "column 1: a filter is a path or a condition"),
        ("//a[b='x]", 'column 7: "\'x]" stands where there should be'),
        ("//a[b='\x00']", "cannot be used"),
        ("/a" * (MAX_STEPS + 1), f"more than {MAX_STEPS} steps"),
        ("//a" + "[b]" * (MAX_PREDICATES + 1), f"more than {MAX_PREDICATES} brackets"),
        ("//a" + "[@b=1]" * (MAX_PREDICATES + 1), f"more than {MAX_PREDICATES} brackets"),
        ("//a" + "[b" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1), f"nests more than {MAX_NESTING} deep"),
        ("not(" * 800 + "//a" + ")" * 800, f"nests more than {MAX_NESTING} deep"),
        ("//a[" + "(b or (c and " * 250 + "d" + "))" * 250 + "]", f"nests more than {MAX_NESTING} deep"),
        ("//a[" + " or ".join([".//b"] * MAX_DESCENTS) + "]", f"more than {MAX_DESCENTS} of //"),
        ("//a[" + " or ".join([".='x'"] * MAX_STEPS) + "]", f"more than {MAX_STEPS} steps"),
        (
            "//a[.//b[c/d='x' or e='y' or f]]",
            "column 30: there are more than 32 steps here, where those in the brackets of a .// count 8",
        ),
        ("//a[.//b[normalize-space(.)='x' or normalize-space(.)='y']]", "in the brackets of a .// count 8 times"),
        ("/" + "a" * (1 << 20), f"{MAX_XPATH_LENGTH} are allowed"),
        ("(" * 2000 + "//a" + ")" * 1999, "the XPath ends"),
    ],
)
def test_refusal(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as error:
        compile_xpath(text)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


PIECES = [*"/@*.[]()'\"=!<> |$:+-,a1", "a", "/a", "[a]", "@a", "='1'", " and ", " or ", "not(", "count(", "//", ".//"]


@given(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
    | st.builds("//a[{}]".format, st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
)
@settings(max_examples=500)
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    try:
        compiled = compile_xpath(text)
    except InvalidInput:
        return
    assert compile_xpath(compiled.canonical).canonical == compiled.canonical
    document = parse_xml("<a a='1'><a>1</a></a>")
    result = etree.XPath(text)(document.root)  # whatever is allowed is XPath, and means what XPath means
    assert compiled.matches(document) is bool(result)


@pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("value", ["39.9", "40", "40.1", "40.00000000000001", "-40", "0.1", "x", ""])
@pytest.mark.parametrize("constant", ["40", "'40'", "-40", "'40.0'", "0.10", "'0.10'"])
def test_the_atom_of_a_comparison_says_what_xpath_says(operator: str, value: str, constant: str) -> None:
    text = f"<o><qocindicator id='10'><qocmetricvalue value='{value}'/></qocindicator></o>"
    _check_atom(f"//qocindicator[@id='10' and qocmetricvalue[@value {operator} {constant}]]", text)


@given(quality_constraints, documents)
@settings(max_examples=500)
def test_the_atom_of_a_constraint_says_what_xpath_says(constraint: str, text: str) -> None:
    if compile_xpath(constraint).atom is not None:
        _check_atom(constraint, text)


def _check_atom(constraint: str, text: str) -> None:
    compiled, document = compile_xpath(constraint), parse_xml(text)
    assert compiled.atom is not None
    found = indicator_values(document, [lane_shape(compiled.atom.path)])
    there = found.get(compiled.atom.path)
    if compiled.atom.kind == "exists":
        says = there is not None
    else:
        says = compiled.atom.holds([v if compiled.atom.kind == "text" else xpath_number(v) for v in there or ()])
    assert says is bool(etree.XPath(constraint)(document.root))


@pytest.mark.parametrize("constraint", [*LISTING_1[1:], "//qocindicator[@id='10'][qocmetricvalue[@value > 1 and @value <= 5]]"])
def test_constraints_of_the_paper_s_form_have_an_atom(constraint: str) -> None:
    assert compile_xpath(constraint).atom is not None


@pytest.mark.parametrize(
    "constraint",
    [
        LISTING_1[0],
        "//qocindicator",
        "/qocindicator[@id='10']",
        "//qocindicator[@id='10']/qocmetricvalue",
        "//qocindicator[@id!='10']",
        "//qocindicator[@id='10' or @id='11']",
        "//qocindicator[@id='10' and qocmetricvalue[@value > 1] and qocmetricvalue[@value < 5]]",
        "//qocindicator[@id='10' and qocmetricvalue[x/@value > 1]]",
        "//qocindicator[@id='10' and qocmetricvalue[@value > 5 and @value < 1]]",
    ],
)
def test_what_an_atom_cannot_say_has_none(constraint: str) -> None:
    assert compile_xpath(constraint).atom is None


@given(st.from_regex(r"[ \t\n]?-?[0-9]{0,20}\.?[0-9]{0,20}(e[-+]?[0-9]{1,3})?[ \t\n]?", fullmatch=True))
@settings(max_examples=500)
def test_a_text_is_the_number_that_xpath_makes_of_it(text: str) -> None:
    expected: Any = etree.XPath("number($text)")(etree.Element("a"), text=text)
    number = xpath_number(text)
    assert number == expected or (isnan(number) and isnan(expected))


def test_numbers_are_rounded_as_xpath_rounds_them() -> None:
    texts = [f"{whole}.{fraction:05}" for whole in (0, 7, 812, 40_123) for fraction in range(0, 100_000, 97)]
    number = etree.XPath("number($text)")
    assert [xpath_number(text) for text in texts] == [number(etree.Element("a"), text=text) for text in texts]
    assert any(xpath_number(text) != float(text) for text in texts)  # else Python's would do


@pytest.mark.parametrize(
    "inside",
    [
        "<x:qocmetricvalue xmlns:x='u:x' value='50'/>",
        "<other><qocmetricvalue value='50'/></other>",
        "<qoccriterion id='1'><qocmetricvalue value='50'/></qoccriterion>",
        "<!-- <qocmetricvalue value='50'/> -->",
        "<qocmetricvalue value='30'/><qocmetricvalue value='50'/>",
        "<qocindicator id='11'><qocmetricvalue value='50'/></qocindicator>",
    ],
)
def test_what_looks_like_a_value_is_one_where_xpath_finds_it(inside: str) -> None:
    text = f"<o><qocindicator id='10'>{inside}</qocindicator></o>"
    _check_atom("//qocindicator[@id='10' and qocmetricvalue[@value > 40]]", text)


def test_an_expression_is_evaluated_once_for_a_document() -> None:
    document = parse_xml(SHELF)
    first, again = compile_xpath("//book[ @lang = 'de' ]"), compile_xpath('//book[@lang="de"]')
    assert first == again
    assert hash(first) == hash(again)
    assert first.matches(document)
    document.answers[first.canonical] = False  # were it evaluated again, it would hold
    assert not again.matches(document)


def test_filters_pickle() -> None:
    assert pickle.loads(pickle.dumps(compile_xpath(LISTING_1[0]))) == compile_xpath(LISTING_1[0])
