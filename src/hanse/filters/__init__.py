"""Text to predicate: the NGSI-LD query language, requirements on quality, and XPath on XML."""

from hanse.filters.compiled import Atom, Filter, compile_q, compile_quality, rename_attributes
from hanse.filters.paths import flat_getter, path_getter, values_at
from hanse.filters.values import number_value, temporal_value, text_value
from hanse.filters.xpath import XPathFilter, compile_xpath

__all__ = [
    "Atom",
    "Filter",
    "XPathFilter",
    "compile_q",
    "compile_quality",
    "compile_xpath",
    "flat_getter",
    "number_value",
    "path_getter",
    "rename_attributes",
    "temporal_value",
    "text_value",
    "values_at",
]
