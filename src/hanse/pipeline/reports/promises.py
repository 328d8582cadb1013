"""What producers have promised: from a node, where they have advertised it, or from a file.

    [[promises]]
    producer = "box-45"
    guarantee = "accuracy>=80;completeness>=90"     # as of an advertisement: levels and numbers
    types = ["AirQualityObserved"]                  # what is this producer's: types, ids, a pattern of ids; all that are said
    ids = ["urn:ngsi-ld:AirQualityObserved:45"]
    id_pattern = "^urn:ngsi-ld:AirQualityObserved:4"
    refresh = "1 hour"                              # how often something comes at least; or refreshRate in the guarantee

- `load_promises(file)`, `promises_of_node(url)`: the native clients, context sources and capsules that a node knows.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.filters import compile_quality
from hanse.filters.patterns import pattern_search
from hanse.filters.terms import Exists, Within
from hanse.model import InvalidInput, Selector
from hanse.pipeline.capsules.places import seconds
from hanse.pipeline.wire import NodeAway, Wire
from hanse.quality import attribute_and_criterion, default_registry, normalized

PROMISES_MAX: Final = 10_000
OF_NODE_MAX: Final = 1_000  # that a node names
REFRESH_RATE: Final = "refreshRate"
PATIENCE_S: Final = 30.0
PRODUCERS: Final = "/hanse/v1/contracts/producers"


class Promise(Struct, frozen=True):
    """Who promises what of which entities. No selectors: of all. `refresh_s` is the longest time between two publications."""

    producer: str
    guarantee: str
    selectors: tuple[Selector, ...] = ()
    refresh_s: float | None = None

    def __post_init__(self) -> None:
        try:
            normalized(self.guarantee, default_registry())
            for selector in self.selectors:
                if selector.id_pattern is not None:
                    pattern_search(selector.id_pattern)
        except InvalidInput as error:
            raise error.at(f"promise of {self.producer}") from None

    @property
    def of_each(self) -> tuple[str, ...]:
        """The parts, in numbers, that every publication has to meet by itself: all but how often one comes."""
        return tuple(part.text for part in self._parts() if _criterion(part) != REFRESH_RATE)

    @property
    def every_s(self) -> float | None:
        """The longest time between two publications: what is said, or what the guarantee's refreshRate means."""
        rates = [
            float(interval.low.key)
            for part in self._parts()
            if isinstance(part, Within) and not part.negated and _criterion(part) == REFRESH_RATE
            for interval in part.intervals
            if interval.low is not None and float(interval.low.key) > 0
        ]
        said = [one for one in (self.refresh_s, 1 / max(rates) if rates else None) if one is not None]
        return min(said, default=None)

    def _parts(self) -> list[Exists | Within]:
        parts = compile_quality(normalized(self.guarantee, default_registry())).conjuncts
        return [part for part in parts if isinstance(part, Exists | Within)]  # a normalized requirement has no others


def _criterion(part: Exists | Within) -> str:
    return attribute_and_criterion(part.path.text)[1]


class _Promised(Struct, frozen=True, forbid_unknown_fields=True):
    producer: str
    guarantee: str = ""
    types: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    id_pattern: str | None = None
    refresh: str | float | None = None

    def promise(self) -> Promise:
        selectors = tuple(
            Selector(type=type_, id=id_, id_pattern=self.id_pattern)
            for type_ in self.types or (None,)
            for id_ in self.ids or (None,)
        )
        is_all = selectors == (Selector(),)
        refresh_s = None if self.refresh is None else seconds(self.refresh, f"refresh of {self.producer}")
        return Promise(self.producer, self.guarantee, () if is_all else selectors, refresh_s)


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    promises: tuple[_Promised, ...]


def load_promises(file: str | Path) -> list[Promise]:
    """Of a TOML file. Raises InvalidInput in words that name the place."""
    try:
        read = msgspec.convert(tomllib.loads(Path(file).read_text(encoding="utf-8")), _File)
        return checked([one.promise() for one in read.promises])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InvalidInput(f"it cannot be read: {error}", place=str(file)) from error
    except InvalidInput as error:
        raise error.at(str(file)) from None


def promises_of_node(url: str, token: str = "", tenant: str = "") -> list[Promise]:
    """What has been advertised and registered at a node with a guarantee. Raises InvalidInput if it does not say."""
    wire = Wire(url, token, tenant)
    try:
        answer = wire.patiently("GET", PRODUCERS, {"limit": OF_NODE_MAX}, patience_s=PATIENCE_S)
    except NodeAway as error:
        raise InvalidInput(str(error)) from error
    finally:
        wire.close()
    found: list[dict[str, Any]] = msgspec.json.decode(answer.body)
    if len(found) == OF_NODE_MAX:
        raise InvalidInput(f"{url} knows {OF_NODE_MAX} producers or more; name those that matter in a file of promises")
    return checked([_advertised(one) for one in found if one["guarantee"]])


def _advertised(one: dict[str, Any]) -> Promise:
    selectors = dict.fromkeys(msgspec.convert(selector, Selector) for selector in one["selectors"])
    return Promise(one["producer"], one["guarantee"], tuple(selectors))


def checked(promises: list[Promise]) -> list[Promise]:
    if len(promises) > PROMISES_MAX:
        raise InvalidInput(f"{len(promises)} promises are too many; a report is about at most {PROMISES_MAX}")
    return promises
