"""How large what a client sends may be. The HTTP layer bounds the body as a whole; these bound what is in it."""

from __future__ import annotations

from typing import Final

NAME_LENGTH_MAX: Final = 2048  # of a type or attribute, short or expanded
STRING_LENGTH_MAX: Final = 4_194_304  # of one text in a value, in characters
ARRAY_LENGTH_MAX: Final = 100_000  # elements of one array in a value
VALUE_DEPTH_MAX: Final = 64  # objects and arrays within one value
SUB_ATTRIBUTE_DEPTH_MAX: Final = 16  # attributes of attributes of attributes ...
ATTRIBUTES_MAX: Final = 10_000  # of one entity, or of one attribute
INSTANCES_MAX: Final = 10_000  # of one attribute
TYPES_MAX: Final = 1_000  # of one entity; and as many scopes
NUMBER_MAX: Final = 1.7976931348623157e308  # what a double holds; an integer beyond is refused as well
