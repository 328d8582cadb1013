"""Text to terms: the part of XPath 1.0 that a filter on XML may use, and its refusals in the user's words.

What is evaluated later is never the user's text but the canonical text of these terms, so that nothing reaches the evaluator
that is not listed here: paths of names, attributes and `*` along the child axis and `//`; predicates with and, or, not;
comparisons of a path with a text or a number; a few functions that read their arguments once. There are no variables,
prefixes, other axes, positions, unions or sums.

How long a filter can take is decided here, too. Steps along the child axis visit every element at most once, whatever they start
from. `//` visits all that is below each of its starting points; so a path has one `//` at most, a path in brackets starts from
where it stands, and a `.//` in brackets has no other `.//` in its own brackets. With the bound on a document's depth that is
linear in its size; one `//` more, and it would be quadratic or cubic. What is asked of all that is below all elements counts
more than what is asked of each element once.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.model.values import MAX_XPATH_LENGTH

if TYPE_CHECKING:
    from lark import Lark, Token, UnexpectedInput

MAX_STEPS: Final = 32
DESCENT_WEIGHT: Final = (
    8  # a step in the brackets of a `.//` counts so often: it is taken for every pair of elements, not for each
)
MAX_PREDICATES: Final = 32
MAX_NESTING: Final = 12  # brackets, functions, and and-in-or within each other
MAX_DESCENTS: Final = 4  # `//` and `.//`, in all

_START_CHARACTERS = (  # of a name, as XML has them, without the colon
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd"
)
_NAME = rf"[{_START_CHARACTERS}][{_START_CHARACTERS}\-.0-9\u00b7\u0300-\u036f\u203f-\u2040]*"
_GRAMMAR = rf"""
    start: disjunction
    disjunction: conjunction (_OR conjunction)*
    conjunction: comparison (_AND comparison)*
    ?comparison: operand | operand OPERATOR operand -> compared
    ?operand: path | TEXT -> literal | NUMBER -> number | call | "(" disjunction ")"
    call: FUNCTION "(" (disjunction ("," disjunction)*)? ")"

    path: SEPARATOR step (SEPARATOR step)*          -> absolute
        | step (SEPARATOR step)*                    -> relative
        | DOT (SEPARATOR step)*                     -> dotted
    step: (NAME | STAR) predicate*                  -> element
        | AT (NAME | STAR) predicate*               -> attribute
    predicate: "[" disjunction "]"

    SEPARATOR: "//" | "/"
    OPERATOR: "<=" | ">=" | "!=" | "=" | "<" | ">"
    FUNCTION.3: /{_NAME}(?=[ \t\r\n]*\()/
    NUMBER.2: /-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)/
    TEXT: /"[^"]*"|'[^']*'/
    NAME: /{_NAME}/
    _AND.1: /and(?![{_START_CHARACTERS}\-.0-9])/
    _OR.1: /or(?![{_START_CHARACTERS}\-.0-9])/
    STAR: "*"
    AT: "@"
    DOT: /\.(?!\.)/
    %ignore /[ \t\r\n]+/
"""

_WHAT_MAY_STAND = (  # the first that the parser would have taken tells the state that it was in
    ("FUNCTION", "a path, a text in quotes, a number or a function"),
    ("STAR", "a name, * or @name"),
    ("NAME", "the name of an attribute"),
    ("OPERATOR", "a comparison (= != < <= > >=), and, or, or the end of what is open"),
    ("_AND", "and, or, or the end of what is open"),
)
_INSTEAD = (  # what XPath would have here, and a filter has not
    ("::", "a filter has the child and attribute axes only; write a/b for child::b and @b for attribute::b"),
    (":", "a filter knows no prefixes; use names without one"),
    ("..", "a filter does not go upward; put the condition on the outer element, like //a[b]"),
    ("$", "a filter has no variables; write the value itself"),
    ("|", "a filter does not unite paths; write [a or b], or several subscriptions"),
    ("(", "a path has names as steps, no functions; to compare an element's text, compare the element: a='x'"),
    ("+", "a filter does not calculate"),
    ("!", "to negate, write not(...)"),
)

Kind: TypeAlias = Literal["nodes", "boolean", "text", "number"]


class Step(Struct, frozen=True):
    """One name of a path (`*`: any), with the separator before it."""

    separator: str  # "/", "//", or "" at the start of a relative path
    name: str
    is_attribute: bool
    predicates: tuple[Term, ...] = ()

    @property
    def text(self) -> str:
        inside = "".join(f"[{predicate.text}]" for predicate in self.predicates)
        return f"{self.separator}{'@' * self.is_attribute}{self.name}{inside}"


class Path(Struct, frozen=True):
    """From the root (the first step has a separator), from here (it has none), or here itself (no steps)."""

    steps: tuple[Step, ...]
    column: int
    depth: int
    is_absolute: bool
    kind: Kind = "nodes"

    @property
    def text(self) -> str:
        if not self.steps:
            return "."
        inner = "".join(step.text for step in self.steps)
        return inner if self.is_absolute or not self.steps[0].separator else f".{inner}"

    @property
    def descents(self) -> int:
        return sum(step.separator == "//" for step in self.steps)


class Constant(Struct, frozen=True):
    """A text or a number."""

    value: str
    kind: Kind
    column: int
    depth: int = 0

    @property
    def text(self) -> str:
        if self.kind == "number":
            return self.value
        return f'"{self.value}"' if "'" in self.value else f"'{self.value}'"


class Compared(Struct, frozen=True):
    """A path, or what a function makes of one, compared with a constant. The constant stands on the right."""

    left: Term
    operator: str
    right: Constant
    depth: int
    column: int
    kind: Kind = "boolean"

    @property
    def text(self) -> str:
        return f"{self.left.text} {self.operator} {self.right.text}"


class Call(Struct, frozen=True):
    name: str
    arguments: tuple[Term, ...]
    depth: int
    column: int
    kind: Kind

    @property
    def text(self) -> str:
        return f"{self.name}({', '.join(argument.text for argument in self.arguments)})"


class Joined(Struct, frozen=True):
    """At least two parts, joined by `and` or `or`."""

    word: str
    parts: tuple[Term, ...]
    depth: int
    column: int
    kind: Kind = "boolean"

    @property
    def text(self) -> str:
        return f" {self.word} ".join(
            f"({part.text})" if isinstance(part, Joined) and part.word != self.word else part.text for part in self.parts
        )


Term: TypeAlias = Path | Constant | Compared | Call | Joined

# a function's result, and what each argument may be; "constant" is a text in quotes
_FUNCTIONS: Final[dict[str, tuple[Kind, tuple[str, ...], str]]] = {
    "contains": ("boolean", ("read", "constant"), "contains(path, 'text')"),
    "starts-with": ("boolean", ("read", "constant"), "starts-with(path, 'text')"),
    "string": ("text", ("nodes",), "string(path)"),
    "normalize-space": ("text", ("nodes",), "normalize-space(path)"),
    "number": ("number", ("nodes",), "number(path)"),
    "count": ("number", ("nodes",), "count(path)"),
    "not": ("boolean", ("condition",), "not(condition)"),
}
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def parse_xpath(text: str) -> Term:
    """The terms of an XPath constraint. Raises InvalidInput with the column."""
    if len(text) > MAX_XPATH_LENGTH:
        raise InvalidInput(f"the XPath has {len(text)} characters; {MAX_XPATH_LENGTH} are allowed")
    from lark import UnexpectedInput

    try:
        term: Term = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _refusal(text, error) from None
    if not _is_condition(term):
        raise _complaint("a filter is a path or a condition; compare this with something, like count(//a) >= 2", term.column)
    sizes = _Sizes()
    sizes.take(term, inside=False, below_descent=False)
    return term


class _Sizes:
    """Adds up what a constraint has of everything, and complains of the first thing too many."""

    def __init__(self) -> None:
        self._steps = self._predicates = self._descents = 0

    def take(self, term: Term, *, inside: bool, below_descent: bool) -> None:
        """`inside` brackets, and there `below_descent` of a `.//`."""
        if isinstance(term, Path):
            self._take_path(term, inside=inside, below_descent=below_descent)
        elif isinstance(term, Compared):
            self.take(term.left, inside=inside, below_descent=below_descent)
        else:
            if isinstance(term, Call) and term.name == "normalize-space":  # which reads a text twice
                self._add_steps(1, term.column, below_descent=below_descent)
            for part in term.parts if isinstance(term, Joined) else term.arguments if isinstance(term, Call) else ():
                self.take(part, inside=inside, below_descent=below_descent)

    def _add_steps(self, count: int, column: int, *, below_descent: bool) -> None:
        self._steps += count * (DESCENT_WEIGHT if below_descent else 1)
        if self._steps > MAX_STEPS:
            weighed = f", where those in the brackets of a .// count {DESCENT_WEIGHT} times" if below_descent else ""
            raise _complaint(f"there are more than {MAX_STEPS} steps here{weighed}; split it into several constraints", column)

    def _take_path(self, path: Path, *, inside: bool, below_descent: bool) -> None:
        if inside and path.is_absolute:
            raise _complaint(
                "inside brackets a path starts from where it stands; leave out the leading '/', or write .//name", path.column
            )
        if not inside and not path.is_absolute:
            raise _complaint("a path begins with / or //, like //observable", path.column)
        descents = path.descents
        if descents > 1:
            raise _complaint("a path has one // at most; write //a[.//b] for //a//b", path.column)
        if descents and below_descent:
            raise _complaint("a .// stands inside the brackets of another .//, which takes too long; name the steps", path.column)
        self._descents += descents
        if self._descents > MAX_DESCENTS:
            raise _complaint(f"there are more than {MAX_DESCENTS} of // here; name the steps", path.column)
        self._add_steps(len(path.steps) or 1, path.column, below_descent=below_descent)
        reached = False
        for step in path.steps:
            reached = reached or step.separator == "//"
            self._predicates += len(step.predicates)
            if self._predicates > MAX_PREDICATES:
                raise _complaint(f"there are more than {MAX_PREDICATES} brackets here; join conditions by 'and'", path.column)
            for predicate in step.predicates:
                self.take(predicate, inside=True, below_descent=below_descent or (inside and reached))


def _is_condition(term: Term) -> bool:
    return term.kind in ("nodes", "boolean")


def _refusal(text: str, error: UnexpectedInput) -> InvalidInput:
    from lark import UnexpectedCharacters, UnexpectedToken

    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        position, found = len(text), "the XPath ends"
    else:
        position = error.pos_in_stream or 0
        found = f"{text[position : position + 20]!r} stands"
        for sign, words in _INSTEAD:
            if text.startswith(sign, position):
                return _complaint(words, position)
    allowed = error.allowed if isinstance(error, UnexpectedCharacters) else getattr(error, "expected", None)
    expected = next((what for terminal, what in _WHAT_MAY_STAND if terminal in (allowed or ())), "the end of what is open")
    return _complaint(f"{found} where there should be {expected}", position)


def _complaint(message: str, position: int | None) -> InvalidInput:
    return InvalidInput(message, place=f"column {(position or 0) + 1}")


def _deeper(depth: int, position: int | None) -> int:
    """One more; checked while the terms are built, so that none is ever deeper."""
    if depth >= MAX_NESTING:
        raise _complaint(f"it nests more than {MAX_NESTING} deep; split it into several constraints", position)
    return depth + 1


def _compared(left: Term, operator: str, right: Term) -> Compared:
    if isinstance(left, Constant):
        left, right, operator = right, left, _TURNED[operator]
    if isinstance(left, Constant) or not isinstance(right, Constant):
        raise _complaint("a comparison has a path on one side and a text in quotes or a number on the other", left.column)
    if left.kind == "boolean":
        raise _complaint("a condition is true or not; leave out the comparison", left.column)
    return Compared(left, operator, right, left.depth, left.column)


def _called(name: str, arguments: tuple[Term, ...], column: int) -> Call:
    if name not in _FUNCTIONS:
        raise _complaint(f"{name[:40]} is no function of a filter; there are {', '.join(sorted(_FUNCTIONS))}", column)
    kind, wanted, example = _FUNCTIONS[name]
    fits = len(arguments) == len(wanted) and all(
        isinstance(argument, Constant) and argument.kind == "text"
        if want == "constant"
        else _is_condition(argument)
        if want == "condition"
        else argument.kind == "nodes" or (want == "read" and isinstance(argument, Call) and argument.kind == "text")
        for want, argument in zip(wanted, arguments, strict=True)
    )
    if not fits:
        raise _complaint(f"{name} is used like {example}", column)
    return Call(name, arguments, _deeper(max(argument.depth for argument in arguments), column), column, kind)


def _joined(word: str, parts: tuple[Term, ...]) -> Term:
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if not _is_condition(part):
            raise _complaint(f"{part.text[:40]} is no condition; compare it with something", part.column)
    column = parts[0].column
    return Joined(word, parts, _deeper(max(part.depth for part in parts), column), column)


@cache
def _parser() -> Lark:
    """Made when first asked for: few nodes have filters on XML."""
    from lark import Lark, Transformer, v_args

    @v_args(inline=True)
    class Builder(Transformer[Any, Any]):
        def start(self, term: Term) -> Term:
            return term

        def disjunction(self, *parts: Term) -> Term:
            return _joined("or", parts)

        def conjunction(self, *parts: Term) -> Term:
            return _joined("and", parts)

        def compared(self, left: Term, operator: Token, right: Term) -> Term:
            return _compared(left, str(operator), right)

        def literal(self, token: Token) -> Term:
            return Constant(str(token[1:-1]), "text", token.start_pos or 0)

        def number(self, token: Token) -> Term:
            return Constant(str(token), "number", token.start_pos or 0)

        def call(self, name: Token, *arguments: Term) -> Term:
            return _called(str(name), arguments, name.start_pos or 0)

        def absolute(self, *parts: Any) -> Term:
            return _path(parts, is_absolute=True)

        def relative(self, *parts: Any) -> Term:
            return _path(("", *parts), is_absolute=False)

        def dotted(self, dot: Token, *parts: Any) -> Term:
            if not parts:
                return Path((), dot.start_pos or 0, 0, is_absolute=False)
            if parts[0] == "/":  # ./a is a
                parts = ("", *parts[1:])
            return _path(parts, is_absolute=False)

        def element(self, name: Token, *predicates: Term) -> tuple[Token, bool, tuple[Term, ...]]:
            return name, False, predicates

        def attribute(self, _at: Token, name: Token, *predicates: Term) -> tuple[Token, bool, tuple[Term, ...]]:
            if predicates:
                raise _complaint("an attribute has no brackets; compare it, like @id='10'", name.start_pos)
            return name, True, predicates

        def predicate(self, term: Term) -> Term:
            if not _is_condition(term):
                raise _complaint("brackets hold a condition; positions like [1] are none", term.column)
            return term

    def _path(parts: tuple[Any, ...], *, is_absolute: bool) -> Path:
        steps: list[Step] = []
        depth = 0
        column = parts[1][0].start_pos or 0
        for separator, (name, is_attribute, predicates) in zip(parts[::2], parts[1::2], strict=True):
            if steps and steps[-1].is_attribute:
                raise _complaint("an attribute is the last step of a path", name.start_pos)
            if predicates:
                depth = max(depth, _deeper(max(predicate.depth for predicate in predicates), name.start_pos))
            steps.append(Step(str(separator), str(name), is_attribute, predicates))
        return Path(tuple(steps), column, depth, is_absolute)

    return Lark(_GRAMMAR, parser="lalr", lexer="contextual", transformer=Builder())
