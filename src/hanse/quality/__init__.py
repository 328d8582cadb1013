"""Quality of context: what its criteria are, how it is stated, computed and carried, and how it is asked for."""

from hanse.quality.criteria import Criterion, Definition, Level, Levels, Registry, default_registry, load, told
from hanse.quality.keys import attribute_and_criterion, completed, indicator_key, whole
from hanse.quality.requirements import names, normalized

__all__ = [
    "Criterion",
    "Definition",
    "Level",
    "Levels",
    "Registry",
    "attribute_and_criterion",
    "completed",
    "default_registry",
    "indicator_key",
    "load",
    "names",
    "normalized",
    "told",
    "whole",
]
