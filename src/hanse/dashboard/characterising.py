"""A characterisation while a person makes it: viewpoints, dimensions, scales and scopes, and the file that they give.

Whether it is right is for `hanse.scopes` to say: the file is made and read, and what that complains about is shown.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct, field

from hanse.dashboard import toml_text
from hanse.model import InvalidInput
from hanse.scopes import Characterisation, parse

SCOPES_MAX: Final = 500  # more is for a file and an editor of text


class DraftParent(Struct):
    name: str = ""
    out: str = ""
    into: str = ""


class DraftScope(Struct):
    name: str = ""
    scale: str = ""
    title: str = ""
    parents: list[DraftParent] = field(default_factory=list)


class DraftDimension(Struct):
    name: str = ""
    scales: list[str] = field(default_factory=list)  # the largest first
    scopes: list[DraftScope] = field(default_factory=list)


class DraftViewpoint(Struct):
    name: str = ""
    dimensions: list[DraftDimension] = field(default_factory=list)


class Draft(Struct):
    """What has been said so far."""

    title: str = ""
    viewpoints: list[DraftViewpoint] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)  # brokers and links of a file that was brought

    @property
    def scopes(self) -> int:
        return sum(len(dimension.scopes) for viewpoint in self.viewpoints for dimension in viewpoint.dimensions)

    @classmethod
    def of(cls, text: str) -> Draft:
        """Of a file, which has to be right."""
        found = parse(text)
        return cls(
            title=found.title,
            viewpoints=[
                DraftViewpoint(
                    viewpoint.name,
                    [
                        DraftDimension(
                            dimension.name,
                            list(dimension.scales),
                            [
                                DraftScope(
                                    scope.name,
                                    scope.scale,
                                    scope.title,
                                    [DraftParent(parent.name, parent.out, parent.into) for parent in scope.superscopes],
                                )
                                for scope in dimension.scopes
                            ],
                        )
                        for dimension in viewpoint.dimensions
                    ],
                )
                for viewpoint in found.viewpoints
            ],
            kept={
                name: value
                for name, value in (
                    ("links", [list(link) for link in found.links]),
                    ("brokers", msgspec.to_builtins(found.brokers)),
                )
                if value
            },
        )

    @classmethod
    def first(cls) -> Draft:
        """Something to begin with, which is right already."""
        scopes = [DraftScope("town", "city", "The town"), DraftScope("harbour", "quarter", "The harbour", [DraftParent("town")])]
        return cls("My system", [DraftViewpoint("geography", [DraftDimension("area", ["city", "quarter"], scopes)])])

    # --- the file -----------------------------------------------------------------------------------------------------

    def toml(self) -> str:
        parts = [list(toml_text.lines({"title": self.title, **({"links": self.kept["links"]} if "links" in self.kept else {})}))]
        for viewpoint in self.viewpoints:
            parts.append(["[[viewpoints]]", f"name = {toml_text.value(viewpoint.name)}"])
            for dimension in viewpoint.dimensions:
                shown = {"name": dimension.name, "scales": dimension.scales}
                parts.append(
                    ["[[viewpoints.dimensions]]", *(f"{name} = {toml_text.value(value)}" for name, value in shown.items())]
                )
                for scope in dimension.scopes:
                    parts.append(["[[viewpoints.dimensions.scopes]]", *_scope_lines(scope)])
        for broker in self.kept.get("brokers", ()):
            parts.append(["[[brokers]]", *toml_text.lines(broker)])
        return "\n\n".join("\n".join(part) for part in parts if part) + "\n"

    def checked(self) -> Characterisation:
        """Raises InvalidInput, one line, for what is wrong first."""
        return parse(self.toml())

    def problem(self) -> str:
        """What is wrong, in words; nothing if it can be used."""
        hint = self._missing()
        if hint:
            return hint
        try:
            self.checked()
        except InvalidInput as error:
            return str(error)
        return ""

    def _missing(self) -> str:
        """What a person has not come to yet, in the order in which one does."""
        if not self.viewpoints:
            return "Add a viewpoint: a way to look at the system, such as geography."
        for viewpoint in self.viewpoints:
            if not viewpoint.name.strip():
                return "Give the viewpoint a name, such as geography."
            if not viewpoint.dimensions:
                return f"Add a dimension to the viewpoint {viewpoint.name!r}: something that can be measured in it, such as area."
            for dimension in viewpoint.dimensions:
                if not dimension.name.strip():
                    return f"Give each dimension of {viewpoint.name!r} a name, such as area."
                if not dimension.scales:
                    return f"Give the dimension {dimension.name!r} scales, the largest first: city, quarter."
                for scope in dimension.scopes:
                    if not scope.name.strip():
                        return f"Give each scope of {dimension.name!r} a name."
                    if not scope.scale:
                        return f"Say which scale the scope {scope.name!r} has: {', '.join(dimension.scales)}."
        return ""


def _scope_lines(scope: DraftScope) -> list[str]:
    parents = [
        parent.name if not (parent.out or parent.into) else _told({"name": parent.name, "out": parent.out, "into": parent.into})
        for parent in scope.parents
    ]
    lines = [f"name = {toml_text.value(scope.name)}", f"scale = {toml_text.value(scope.scale)}"]
    return [*lines, *toml_text.lines({"title": scope.title, "parents": parents})]


def _told(given: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if value}


def possible_parents(dimension: DraftDimension, scope: DraftScope) -> list[str]:
    """Scopes of a larger scale."""
    if scope.scale not in dimension.scales:
        return []
    larger = dimension.scales[: dimension.scales.index(scope.scale)]
    return [other.name for other in dimension.scopes if other.scale in larger and other.name]
