"""Who asks: a user or a node, with its community, its roles and whatever else is known of it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from hanse.model import InvalidInput

MAX_ROLES: Final = 256
MAX_ATTRIBUTES: Final = 64
MAX_TEXT: Final = 2048  # characters of a name, a role or an attribute's value

Kind: TypeAlias = Literal["User", "Node"]
Known: TypeAlias = str | bool | int | tuple[str, ...]  # what can be known of a principal


class Principal(Struct, frozen=True, dict=True, omit_defaults=True):
    """In Cedar `User::"alice"` or `Node::"fire-1"`, in `Role::"chief"` and `Community::"fire"`, with its attributes."""

    id: str
    community: str = ""
    roles: tuple[str, ...] = ()
    attributes: dict[str, Known] = {}
    kind: Kind = "User"

    def __post_init__(self) -> None:
        if len(self.roles) > MAX_ROLES:
            raise InvalidInput(f"a principal has at most {MAX_ROLES} roles")
        if len(self.attributes) > MAX_ATTRIBUTES:
            raise InvalidInput(f"a principal has at most {MAX_ATTRIBUTES} attributes")
        for text in (self.id, self.community, *self.roles):
            if len(text) > MAX_TEXT:
                raise InvalidInput(f"a name of a principal has at most {MAX_TEXT} characters, {text[:40]!r} has more")

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What decisions are remembered by: equal for principals of whom the same is known."""
        known = tuple(sorted((name, of_its_kind(value)) for name, value in self.attributes.items()))
        return self.kind, self.id, self.community, self.roles, known

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Principal) and self.key == other.key

    def __str__(self) -> str:
        return f'{self.kind}::"{self.id}"'


def of_its_kind(value: Known) -> tuple[str, Known]:
    """A value that equals only one of its own kind: for Python True is 1, for policies it is not."""
    return type(value).__name__, value


ANONYMOUS: Final = Principal("anonymous", roles=("anonymous",))  # whoever does not say who he is
