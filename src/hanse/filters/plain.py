"""The filters that nearly everyone writes, read without the parser: `temperature>20;status=="open";serial==1..5`.

That is a conjunction of existence and of comparisons with one number, one text without escapes or one range of numbers. What is
not exactly that, wrong or merely rarer, is none of this module's business: it says None, and the grammar decides. The terms come
from the same functions as the parser's, so a filter means the same whoever read it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hanse.filters.paths import PATH_PATTERN, parse_path
from hanse.filters.terms import Exists, equality, join, number, order, text_or_moment, value_range
from hanse.filters.values import NUMBER_PATTERN
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.filters.terms import Node

_BLANKS = r"[ \t\r\n]*+"
_NUMBER = f"((?>{NUMBER_PATTERN}))"  # atomic: like the lexer, take all of a token or nothing
_VALUE = rf'(?:{_NUMBER}(?:{_BLANKS}\.\.{_BLANKS}{_NUMBER})?|"([^"\\]*+)")'
_TERM = re.compile(rf"{_BLANKS}((?>{PATH_PATTERN})){_BLANKS}(?:([<>]=?+|[=!]=){_BLANKS}{_VALUE}{_BLANKS})?(?:;|\Z)")


def parse_plain(text: str) -> Node | None:
    """The terms of a plain filter; None if it is not one."""
    terms: list[Node] = []
    position = 0
    while (found := _TERM.match(text, position)) is not None:
        term = _term(*found.groups())
        if term is None:
            return None
        terms.append(term)
        position = found.end()
        if text[position - 1] != ";":  # else one more must follow
            return join(";", terms)
    return None


def _term(path_text: str, operator: str | None, low_text: str | None, high_text: str | None, text: str | None) -> Node | None:
    try:
        path = parse_path(path_text)
    except InvalidInput:
        return None
    if operator is None:
        return Exists(path)
    low = text_or_moment(text) if text is not None else number(low_text or "")
    high = low if high_text is None else number(high_text)
    if low is None or high is None:
        return None
    if operator not in ("==", "!="):
        return order(path, operator, low) if high is low else None
    return equality(path, operator, (low,)) if high is low else value_range(path, operator, low, high)
