"""Text to predicate: the NGSI-LD query language, and requirements on quality."""

from hanse.filters.compiled import Atom, Filter, compile_q, compile_quality, rename_attributes
from hanse.filters.paths import flat_getter, path_getter, values_at
from hanse.filters.values import number_value, temporal_value, text_value

__all__ = [
    "Atom",
    "Filter",
    "compile_q",
    "compile_quality",
    "flat_getter",
    "number_value",
    "path_getter",
    "rename_attributes",
    "temporal_value",
    "text_value",
    "values_at",
]
