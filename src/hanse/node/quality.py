"""What a tenant measures quality by: the criteria that its settings name, and the attributes that are expected of each type.

The settings say what is expected; where they are silent, the data model of the type does, by the properties that it requires.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.quality import Measure
from hanse.quality import default_registry, load

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hanse.ngsild.quality import Expected
    from hanse.node.settings import QualitySection
    from hanse.quality import Registry


def criteria_of(settings: QualitySection) -> Registry:
    """Raises InvalidInput for a file that cannot be used."""
    return load(Path(settings.criteria)) if settings.criteria else default_registry()


def measure_of(settings: QualitySection, required: Expected) -> Measure:
    """`required`: what the model of a type requires. Raises InvalidInput for settings that cannot be used."""
    registry = criteria_of(settings)
    stated = _expanded(settings.expected)

    def expected(type_: str) -> Collection[str]:
        found = stated.get(type_)
        return found if found is not None else required(type_)

    return Measure(registry, expected)


def _expanded(stated: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    try:
        return {CORE.expand_name(type_): frozenset(map(CORE.expand_name, names)) for type_, names in stated.items()}
    except BadRequestData as error:
        raise InvalidInput(error.message, place="[quality] expected") from None
