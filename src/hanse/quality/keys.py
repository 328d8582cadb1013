"""The keys of `Notification.quality`: which indicator of what.

`NO2.precision` is that of an attribute (by its expanded name, for an NGSI-LD entity), `precision` that of the whole: what was
stated for the whole, or else the worst that an attribute has. The last dot parts the two, so the name of an attribute may have
dots and be a URI. A key is written as filters write paths, so that a requirement finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hanse.model.errors import InvalidInput
from hanse.quality.composites import with_composites
from hanse.quality.criteria import Registry

MAX_SHOWN: Final = 100  # characters of a name, in words


def indicator_key(attribute: str, criterion: str) -> str:
    """The key of an attribute's indicator; of the whole's, if the attribute is empty."""
    if not attribute:
        return criterion
    return f"{attribute}.{criterion}".replace("%2E", ".").replace("%2e", ".")  # a dot that a filter may write escaped


def attribute_and_criterion(key: str) -> tuple[str, str]:
    """The two parts of a key; the attribute is empty for an indicator of the whole."""
    attribute, _, criterion = key.rpartition(".")
    return attribute, criterion


def whole(per_attribute: Mapping[str, Mapping[str, float]], stated: Mapping[str, float], registry: Registry) -> dict[str, float]:
    """What a notification says of its quality, from the values by criterion of each attribute and those stated for the whole.

    Values that a criterion's definition does not accept, and criteria that the registry does not have, say nothing. Composite
    criteria that nobody states are computed where all their parts are there.
    """
    found: dict[str, float] = {}
    worst: dict[str, float] = {}
    for attribute, values in per_attribute.items():
        for name, value in with_composites(_meant(values, registry), registry).items():
            found[indicator_key(attribute, name)] = value
            worst[name] = registry.by_name[name].definition.worse(worst[name], value) if name in worst else value
    return found | with_composites(worst | _meant(stated, registry), registry)


def completed(stated: Mapping[str, float], registry: Registry) -> dict[str, float]:
    """What somebody states under these keys, with what follows from it as in `whole`.

    Names that the registry does not have stay as they are: another node may know them. InvalidInput for a number that its
    criterion does not accept.
    """
    by_attribute: dict[str, dict[str, float]] = {}
    for key, value in stated.items():
        attribute, name = attribute_and_criterion(key)
        criterion = registry.by_name.get(name)
        if criterion is not None and not criterion.definition.accepts(value):
            numbers = criterion.definition.range_words
            raise InvalidInput(f"{key[:MAX_SHOWN]} is {value:g}; {name} is a number {numbers}", place="quality")
        by_attribute.setdefault(attribute, {})[name] = value
    of_whole = by_attribute.pop("", {})
    return {**stated, **whole(by_attribute, of_whole, registry)}


def _meant(values: Mapping[str, float], registry: Registry) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in values.items()
        if (criterion := registry.by_name.get(name)) is not None and criterion.definition.accepts(value)
    }
