"""Export rules for people: what a rule lets pass in sentences, and a form with a field for each part of it.

The meaning is `routing.ExportRule`'s alone: what is asked here of a rule is asked of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.routing import ExportRule

NAMES_SHOWN: Final = 8
NAMES_MAX: Final = 200
_LISTS: Final = ("types", "deny_types", "ids", "deny_ids", "attributes", "deny_attributes")

Rule = Mapping[str, Any]


def checked(rule: Rule) -> ExportRule:
    """The rule itself; InvalidInput in words where it is none."""
    for name in rule:
        if name not in ExportRule.__struct_fields__:
            raise InvalidInput(f"an export rule has no {name!r}; it has {', '.join(ExportRule.__struct_fields__)}")
    try:
        return msgspec.convert(dict(rule), ExportRule)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the rule cannot be used: {error}") from None


def lets_pass(rule: Rule | None, type_: str) -> bool:
    """Whether something of that type may cross at all, whatever else the rule asks for. Without a rule, there is no link."""
    return rule is not None and checked(rule).allows_type(type_)


def is_open(rule: Rule | None) -> bool:
    """Whether everything crosses."""
    return rule is not None and checked(rule) == ExportRule()


def types_named(rule: Rule | None) -> set[str]:
    """Types that a rule speaks of by their full names."""
    named = [*(rule or {}).get("types", ()), *(rule or {}).get("deny_types", ())]
    return {name for name in named if not any(sign in name for sign in "*?[")}


# --- words ------------------------------------------------------------------------------------------------------------


def short(rule: Rule | None) -> str:
    """For a line of a table or a link of a graph."""
    if rule is None:
        return "not wanted"
    said = sentences(rule)
    return "everything" if is_open(rule) else "; ".join(sentence.rstrip(".") for sentence in said)


def sentences(rule: Rule | None) -> list[str]:
    """What crosses, a sentence for each thing that is asked for."""
    if rule is None:
        return ["This end does not want the link: nothing crosses."]
    meant = checked(rule)
    if meant.is_closed:
        return ["Nothing crosses."]
    if is_open(rule):
        return ["Everything crosses."]
    said = []
    for names, words in (
        (meant.types, "Only {} may cross."),
        (meant.deny_types, "{} may not cross."),
        (meant.ids, "Only entities with the id {} may cross."),
        (meant.deny_ids, "Entities with the id {} may not cross."),
        (meant.attributes, "Of their attributes, only {} can be seen there."),
        (meant.deny_attributes, "What they say of {} is taken out."),
    ):
        if names:
            text = words.format(_listed(names))
            said.append(text[0].upper() + text[1:])
    said += [
        f"In the dimension {dimension}, only what is stated in {_listed(scopes, 'or')} crosses."
        for dimension, scopes in meant.scopes.items()
    ]
    if rule.get("area") and rule["area"].get("type") != "world":
        said.append("Only what is located in the area crosses; what has no location does not.")
    if meant.quality:
        said.append(f"Only what has a quality of {meant.quality} as a whole crosses.")
    return said or ["Everything crosses."]


def _listed(names: Iterable[str], word: str = "and") -> str:
    found = list(names)
    if len(found) > NAMES_SHOWN:
        return f"{', '.join(found[:NAMES_SHOWN])} {word} {len(found) - NAMES_SHOWN} more"
    return f" {word} ".join(filter(None, (", ".join(found[:-1]), found[-1])))


# --- a form -----------------------------------------------------------------------------------------------------------


class RuleForm(Struct):
    """A rule as the fields of a form have it. What a form has no field for (`kept`) is left as it is."""

    types: list[str] = []
    deny_types: list[str] = []
    attributes: list[str] = []
    deny_attributes: list[str] = []
    scopes: str = ""  # "area: harbour, town" in each line
    area: str = ""  # "west, south, east, north" in degrees
    quality: str = ""
    deny: bool = False
    kept: dict[str, Any] = {}

    @classmethod
    def of(cls, rule: Rule | None) -> RuleForm:
        rule = rule or {}
        box = _box_of(rule.get("area"))
        known = {"types", "deny_types", "attributes", "deny_attributes", "scopes", "quality", "deny"} | (
            {"area"} if box else set()
        )
        return cls(
            **{name: list(rule.get(name, ())) for name in ("types", "deny_types", "attributes", "deny_attributes")},
            scopes="\n".join(f"{dimension}: {', '.join(names)}" for dimension, names in rule.get("scopes", {}).items()),
            area=box,
            quality=rule.get("quality", ""),
            deny=bool(rule.get("deny", False)),
            kept={name: part for name, part in rule.items() if name not in known},
        )

    def rule(self) -> dict[str, Any]:
        """The rule that the fields make; InvalidInput says which field is wrong."""
        made: dict[str, Any] = {name: names for name in _LISTS if (names := _names(getattr(self, name, [])))}
        if scopes := _scopes(self.scopes):
            made["scopes"] = scopes
        if self.area.strip():
            made["area"] = _area(self.area)
        if self.quality.strip():
            made["quality"] = self.quality.strip()
        if self.deny:
            made["deny"] = True
        made = {**self.kept, **made}
        checked(made)
        return made


def _names(given: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(part.strip() for name in given for part in name.split(",") if part.strip()))
    if len(found) > NAMES_MAX:
        raise InvalidInput(f"more than {NAMES_MAX} names; use a pattern such as Building*")
    return found


def _scopes(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        dimension, colon, names = line.partition(":")
        if not colon or not _names([names]):
            raise InvalidInput(f"{line[:60]!r} names no scopes; write the dimension, a colon, and scopes: area: harbour, town")
        found[dimension.strip()] = _names([names])
    return found


def _area(text: str) -> dict[str, Any]:
    """A box, as the node's geofences are written."""
    try:
        west, south, east, north = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"the area {text[:60]!r} is not west, south, east, north in degrees") from None
    if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
        raise InvalidInput("the area is empty or off the globe; write west, south, east, north, each side smaller first")
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "polygon", "polygons": [[ring]]}


def _box_of(area: Any) -> str:
    """The text of a box; empty if it is another shape, which a form leaves alone."""
    try:
        ((ring,),) = area["polygons"]
        lons, lats = {point[0] for point in ring}, {point[1] for point in ring}
    except (KeyError, TypeError, ValueError, IndexError):
        return ""
    if len(lons) != 2 or len(lats) != 2:
        return ""
    return f"{min(lons):.10g}, {min(lats):.10g}, {max(lons):.10g}, {max(lats):.10g}"
