"""Text to terms: the NGSI-LD query language, ETSI GS CIM 009 v1.8 clause 4.9, and its refusals in the user's words.

The lexer is contextual: what may stand after `==` (a value) is never confused with what may stand before it (a path), so
`urn:a:b` is an attribute on the left and a value on the right. The parser keeps its own stack and builds the terms bottom up,
so no text can exhaust Python's.

Beyond the letter of the ABNF: blanks between tokens, groups within groups, patterns in double quotes (where ';', '|' and
parentheses are free), `a[b][c]` for `a[b.c]`, `!a` for what has no `a`, and texts of one word without quotes. Linked
entities (`a{b}`) are refused: a filter sees one entity.
"""

from __future__ import annotations

import json
from typing import Any, Final

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args

from hanse.filters.paths import PATH_PATTERN, Path, parse_path
from hanse.filters.patterns import pattern_search
from hanse.filters.plain import parse_plain
from hanse.filters.terms import (
    Exists,
    Joined,
    Node,
    Pattern,
    Value,
    Within,
    equality,
    join,
    number,
    order,
    quoted,
    text_or_moment,
    value_range,
)
from hanse.filters.values import DATE_PATTERN, DATETIME_PATTERN, NUMBER_PATTERN, TIME_PATTERN, temporal_value
from hanse.model import InvalidInput

MAX_LENGTH: Final = 65_536  # with full names, which a context makes of short ones
MAX_TERMS: Final = 256
MAX_VALUES: Final = 1024

_GRAMMAR = rf"""
    start: disjunction
    ?disjunction: conjunction ("|" conjunction)*    -> either
    ?conjunction: factor (";" factor)*              -> both
    ?factor: term | "(" disjunction ")"
    term: PATH                                      -> exists
        | "!" PATH                                  -> lacks
        | PATH ORDER comparable                     -> ordered
        | PATH EQUALITY _choices                    -> equals
        | PATH EQUALITY comparable ".." comparable  -> ranged
        | PATH MATCHING (STRING | BARE_PATTERN)     -> matches
    _choices: _choice ("," _choice)*
    _choice: comparable | other
    comparable: NUMBER -> number
        | STRING -> text
        | (DATETIME | DATE | TIME) -> moment
    other: BOOLEAN -> boolean
        | (URI | WORD) -> uri

    PATH: /{PATH_PATTERN}/
    ORDER: ">=" | "<=" | ">" | "<"
    EQUALITY: "==" | "!="
    MATCHING: "~=" | "!~="
    NUMBER.2: /{NUMBER_PATTERN}/
    STRING: /"(?:\\.|[^"\\])*"/
    DATETIME.5: /{DATETIME_PATTERN}/
    DATE.4: /{DATE_PATTERN}/
    TIME.4: /{TIME_PATTERN}/
    BOOLEAN.3: /(?:true|false)(?![\w:])/
    WORD: /[^\W\d]\w*/
    URI.1: /[A-Za-z][A-Za-z0-9+.\-]*:[^\s;|()",<>\[\]]+/
    BARE_PATTERN: /(?:\\.|[^\s;|()"\\])+/
    %ignore /[ \t\r\n]+/
"""

_WHAT_MAY_STAND = (  # the first that the parser would have taken tells the state that it was in
    ("BOOLEAN", "a value: a number, a text in double quotes, true, false, a date, a URI or one word"),
    ("BARE_PATTERN", "a pattern, in double quotes if it has ';', '|', blanks or parentheses"),
    ("NUMBER", "a number, a text in double quotes or a date"),
    ("PATH", "an attribute name or '('"),
    ("ORDER", "an operator (== != > >= < <= ~= !~=), ';', '|' or the end"),
    ("COMMA", "',', ';', '|' or the end"),
    ("RPAR", "';', '|' or ')'"),
)


def parse(text: str) -> Node | None:
    """The terms of a filter; None for an empty one."""
    if len(text) > MAX_LENGTH:
        raise InvalidInput(f"the filter has {len(text)} characters; {MAX_LENGTH} are allowed")
    if not text.strip():
        return None
    node = parse_plain(text) or parse_any(text)
    terms, values = _sizes(node)
    if terms > MAX_TERMS:
        raise InvalidInput(f"the filter has {terms} terms; {MAX_TERMS} are allowed")
    if values > MAX_VALUES:
        raise InvalidInput(f"the filter lists {values} values; {MAX_VALUES} are allowed")
    return node


def parse_any(text: str) -> Node:
    """What `parse_plain` gives, for every filter."""
    try:
        node: Node = _parser.parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _refusal(text, error) from None
    return node


def _sizes(node: Node) -> tuple[int, int]:
    if isinstance(node, Joined):
        sizes = [_sizes(part) for part in node.parts]
        return sum(terms for terms, _ in sizes), sum(values for _, values in sizes)
    return 1, len(node.intervals) if isinstance(node, Within) else 0


def _refusal(text: str, error: UnexpectedInput) -> InvalidInput:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        position, found = len(text), "the filter ends"
    else:
        position = error.pos_in_stream or 0
        found = f"{text[position : position + 20]!r} stands"
    if text[position : position + 1] == "{":
        return _complaint("a filter sees one entity and cannot follow a linked one; leave out the {Type} part", position)
    allowed = error.allowed if isinstance(error, UnexpectedCharacters) else getattr(error, "expected", None)
    expected = next((what for terminal, what in _WHAT_MAY_STAND if terminal in (allowed or ())), "';', '|' or the end")
    return _complaint(f"{found} where there should be {expected}", position)


def _shown(text: str) -> str:
    """Some of what the user wrote, in one line."""
    return repr(str(text[:40]))[1:-1]


def _complaint(message: str, position: int | None) -> InvalidInput:
    return InvalidInput(message, place=f"column {(position or 0) + 1}")


@v_args(inline=True)
class _Builder(Transformer[Any, Any]):
    def start(self, node: Node) -> Node:
        return node

    def either(self, *nodes: Node) -> Node:
        return join("|", list(nodes))

    def both(self, *nodes: Node) -> Node:
        return join(";", list(nodes))

    def exists(self, path: Token) -> Node:
        return Exists(_path(path))

    def lacks(self, path: Token) -> Node:
        return Exists(_path(path), negated=True)

    def ordered(self, path: Token, operator: Token, value: Value) -> Node:
        return order(_path(path), operator, value)

    def equals(self, path: Token, operator: Token, *choices: Value) -> Node:
        return equality(_path(path), operator, choices)

    def ranged(self, path: Token, operator: Token, low: Value, high: Value) -> Node:
        if low.kind != high.kind:
            raise _complaint(
                f"the range {_shown(low.text)} to {_shown(high.text)} mixes {low.kind} and {high.kind}; use one kind",
                path.start_pos,
            )
        node = value_range(_path(path), operator, low, high)
        if node is None:
            raise _complaint(
                f"the range {_shown(low.text)} to {_shown(high.text)} is empty; put the lower bound first", path.start_pos
            )
        return node

    def matches(self, path: Token, operator: Token, pattern: Token) -> Node:
        # a backslash before a quote means the quote to RE2 too, so a quoted pattern is taken as it stands
        inside = str(pattern[1:-1] if pattern.type == "STRING" else pattern)
        try:
            pattern_search(inside)
        except InvalidInput as error:
            raise _complaint(error.message, pattern.start_pos) from None
        return Pattern(_path(path), operator == "!~=", inside)

    def number(self, token: Token) -> Value:
        value = number(token)
        if value is None:
            raise _complaint(f"the number {_shown(token)} is too large; a double ends at 1.8e308", token.start_pos)
        return value

    def text(self, token: Token) -> Value:
        try:
            text = json.loads(token, strict=False)
        except ValueError:
            raise _complaint(
                f"{_shown(token)} has an escape that JSON does not know; write \\\\ for a backslash", token.start_pos
            ) from None
        return text_or_moment(text)

    def moment(self, token: Token) -> Value:
        moment = temporal_value(token)
        if moment is None:
            raise _complaint(f"{token} is not on the calendar or the clock", token.start_pos)
        return Value(moment[0], moment[1], str(token))

    def boolean(self, token: Token) -> Value:
        return Value("boolean", str(token) == "true", str(token))

    def uri(self, token: Token) -> Value:
        return Value("text", str(token), quoted(str(token)))


def _path(token: Token) -> Path:
    try:
        return parse_path(str(token))
    except InvalidInput as error:
        raise _complaint(error.message, token.start_pos) from None


_parser: Final = Lark(_GRAMMAR, parser="lalr", lexer="contextual", transformer=_Builder())
