"""Cedar: the schema that policies are held to, what one policy says, and the calls into `cedarpy`.

The schema is closed, so that a misspelt attribute is refused when policies are loaded, and evaluation has hardly anything left to
fail on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import cedarpy
import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.policies.obfuscation import Obfuscation, obfuscation

MAX_TEXT: Final = 1 << 20  # characters of policies
MAX_POLICIES: Final = 1000
SCHEMAS_KEPT: Final = 16

Action: TypeAlias = Literal["read", "subscribe", "publish", "advertise", "join"]
ACTIONS: Final[tuple[Action, ...]] = ("read", "subscribe", "publish", "advertise", "join")
AttributeKind: TypeAlias = Literal["text", "number", "boolean", "list"]
MEMBERS: Final = ("types", "id", "attribute", "attributeUri", "scopes", "areas", "tenant", "quality")
ANNOTATIONS: Final = ("id", "obfuscate", "overrules", "description")

_CEDAR_TYPE: Final[dict[AttributeKind, str]] = {"text": "String", "number": "Long", "boolean": "Bool", "list": "Set<String>"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NOT_FOUND: Final = re.compile(r"attribute `(?P<name>[^`]+)`.* not found")
_UNSAFE: Final = re.compile(r"optional attribute `(?P<name>[^`]+)`")
_PRINCIPAL: Final = {"Var": "principal"}
_PREFIX: Final = re.compile(r"^for policy `[^`]*`, ")


class Policy(Struct, frozen=True, kw_only=True):
    """One policy: its effect, what its annotations say, and which members of a resource it looks at."""

    id: str  # by `@id`, or by its place among the policies
    effect: Literal["permit", "forbid"]
    description: str
    obfuscation: Obfuscation | None
    overrules: tuple[str, ...]  # ids of policies outside, "*" for all: only in an override
    mentions: frozenset[str]
    json: dict[str, Any]


@lru_cache(maxsize=SCHEMAS_KEPT)
def schema(attributes: tuple[tuple[str, AttributeKind], ...], criteria: tuple[str, ...]) -> cedarpy.Schema:
    """With these attributes of principals and these criteria of quality, each of which may be missing."""
    known = "".join(f", {name}?: {_CEDAR_TYPE[kind]}" for name, kind in attributes)
    quality = ", ".join(f"{name}?: Long" for name in criteria)
    return cedarpy.Schema.from_str(
        f"""
        entity Role;
        entity Community;
        entity User, Node in [Role, Community] {{ id: String, community: String{known} }};
        entity Data {{
            types: Set<String>, id: String, attribute: String, attributeUri: String,
            scopes: Set<String>, areas: Set<String>, tenant: String, quality: {{ {quality} }}
        }};
        action {", ".join(ACTIONS)} appliesTo {{ principal: [User, Node], resource: [Data] }};
        """
    )


def check_names(attributes: Mapping[str, AttributeKind], criteria: Mapping[str, Any]) -> None:
    for name in (*attributes, *criteria):
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name[:60]!r} cannot be named in a policy; use letters, digits and _")
    for name in ("id", "community"):
        if name in attributes:
            raise InvalidInput(f"every principal has {name!r} already; name the attribute otherwise")


def parsed(
    text: str, attributes: Mapping[str, AttributeKind], criteria: Mapping[str, Any], *, in_override: bool
) -> tuple[Policy, ...]:
    """The policies of a text, checked in every way that does not need a request. Raises InvalidInput."""
    if len(text) > MAX_TEXT:
        raise InvalidInput(f"the policies have more than {MAX_TEXT} characters")
    check_names(attributes, criteria)
    try:
        document = msgspec.json.decode(cedarpy.policies_to_json_str(text))
    except ValueError as error:
        raise InvalidInput(f"the policies cannot be read: {_one_line(str(error))}") from error
    if document.get("templates"):
        raise InvalidInput("the policies have a template (?principal or ?resource); write out whom it is for")
    stated = document["staticPolicies"]
    if len(stated) > MAX_POLICIES:
        raise InvalidInput(f"there are more than {MAX_POLICIES} policies")
    policies = [_policy(name, stated[name], in_override=in_override) for name in sorted(stated, key=_place)]
    _check_ids(policies)
    names = {name: policy.id for name, policy in zip(sorted(stated, key=_place), policies, strict=True)}
    for policy in policies:
        _check_asked(policy, attributes, criteria)
    result = cedarpy.validate_policies(text, schema(tuple(sorted(attributes.items())), tuple(sorted(criteria))))
    if not result.validation_passed:
        first = result.errors[0]
        place = f"policy {names[first.policy_id]!r}" if first.policy_id in names else ""
        raise InvalidInput(_in_words(first.error, attributes, criteria), place=place)
    return tuple(policies)


def engine(policies: tuple[Policy, ...]) -> cedarpy.PolicySet:
    """These policies, by their ids, ready to be asked."""
    document = {"staticPolicies": {policy.id: policy.json for policy in policies}, "templates": {}, "templateLinks": []}
    return cedarpy.PolicySet.from_json_str(msgspec.json.encode(document).decode())


class Verdict(Struct, frozen=True):
    allowed: bool
    policies: tuple[str, ...]
    errors: tuple[str, ...]


def asked(
    policies: cedarpy.PolicySet, principal: dict[str, str], action: str, resource: str, entities: cedarpy.Entities
) -> Verdict:
    request = {"principal": principal, "action": {"type": "Action", "id": action}, "resource": {"type": "Data", "id": resource}}
    result = cedarpy.is_authorized(request, policies, entities)
    diagnostics = result.diagnostics
    return Verdict(result.allowed, tuple(sorted(diagnostics.reasons)), tuple(_one_line(error) for error in diagnostics.errors))


# --- one policy ---------------------------------------------------------------------------------------------------------


def _place(name: str) -> tuple[int, str]:
    digits = name.removeprefix("policy")
    return (int(digits), name) if digits.isdecimal() else (0, name)


def _policy(name: str, stated: dict[str, Any], *, in_override: bool) -> Policy:
    annotations = {key: value or "" for key, value in stated.get("annotations", {}).items()}
    id_ = annotations.get("id") or name
    place = f"policy {id_!r}"
    for key in annotations:
        if key not in ANNOTATIONS:
            raise InvalidInput(
                f"@{key} means nothing here; there are {', '.join('@' + known for known in ANNOTATIONS)}", place=place
            )
    effect = stated["effect"]
    way = None
    if "obfuscate" in annotations:
        if effect != "permit":
            raise InvalidInput("what is forbidden is not seen at all; put @obfuscate on a permit", place=place)
        try:
            way = obfuscation(annotations["obfuscate"])
        except InvalidInput as error:
            raise error.at(place) from error
    overrules = tuple(word.strip() for word in annotations.get("overrules", "").split(",") if word.strip())
    if "overrules" in annotations:
        if not in_override:
            raise InvalidInput("@overrules is for overrides; say in the forbid itself whom it is not for", place=place)
        if effect != "permit" or not overrules:
            raise InvalidInput('@overrules is for a permit, and names the policies that it beats, or "*"', place=place)
    return Policy(
        id=id_,
        effect=effect,
        description=annotations.get("description", ""),
        obfuscation=way,
        overrules=overrules,
        mentions=mentions(stated),
        json=stated,
    )


def _check_ids(policies: list[Policy]) -> None:
    seen: set[str] = set()
    for policy in policies:
        if policy.id in seen:
            raise InvalidInput(f"two policies have the id {policy.id!r}; give each its own", place=f"policy {policy.id!r}")
        seen.add(policy.id)


def _check_asked(policy: Policy, attributes: Mapping[str, Any], criteria: Mapping[str, Any]) -> None:
    """For Cedar, `principal has clearnce` is merely never true; here it is a mistake."""
    of_resource = {*MEMBERS, *(f"quality.{name}" for name in criteria)}
    of_principal = {"id", "community", *attributes}
    asked_for: set[str] = set()
    mentioned(policy.json["conditions"], asked_for, of="principal")
    for names, known in ((policy.mentions, of_resource), (asked_for, of_principal)):
        for name in sorted(names - known):
            raise InvalidInput(_unknown(name, known), place=f"policy {policy.id!r}")


def mentions(policy: dict[str, Any]) -> frozenset[str]:
    """The members of a resource that a policy, in its JSON form, looks at. A criterion of quality is `quality.freshness`."""
    found: set[str] = set()
    if names_resource(policy):
        found.add("id")
    for condition in policy["conditions"]:
        mentioned(condition["body"], found)
    return frozenset(found)


def names_resource(policy: dict[str, Any]) -> bool:
    """Whether its head names an entity: `resource == …`, `resource in …`, or `resource is Data in …`."""
    scope = policy["resource"]
    return scope["op"] not in ("All", "is") or "in" in scope


def principals_named(policy: dict[str, Any], found: set[str]) -> None:
    """Adds to `found` what a policy looks at of a principal: names of others (`Role::"chief"`) and of its attributes (`.id`).

    "*" stands for everything.
    """
    _entities(policy["principal"], found)
    for condition in policy["conditions"]:
        _principal_in(condition["body"], found)


def _principal_in(expression: Any, found: set[str]) -> None:
    if isinstance(expression, list):
        for part in expression:
            _principal_in(part, found)
        return
    if not isinstance(expression, dict):
        return
    for kind, part in expression.items():
        if kind == "Var":
            if part == "principal":
                found.add("*")  # as it is, where nobody knows what becomes of it
        elif isinstance(part, dict) and part.get("left") == _PRINCIPAL and kind in (".", "has", "is", "in", "=="):
            if kind in (".", "has"):
                found.add(f".{part['attr']}")
            elif not _is_literal(part.get("in" if kind == "is" else "right")):
                found.add("*")
            else:
                _entities(part, found)
        elif kind == "Record":
            _principal_in(list(part.values()), found)  # whose keys mean nothing, even if they are called "Value"
        elif kind != "Value":
            _principal_in(part, found)


def _is_literal(expression: Any) -> bool:
    """Whether it is an entity that is named, or a set of such, or nothing at all."""
    if expression is None:
        return True
    if isinstance(expression, dict) and isinstance(expression.get("Set"), list):
        return all(_is_literal(part) for part in expression["Set"])
    return isinstance(expression, dict) and isinstance(expression.get("Value"), dict) and "__entity" in expression["Value"]


def _entities(expression: Any, found: set[str]) -> None:
    if isinstance(expression, list):
        for part in expression:
            _entities(part, found)
    elif isinstance(expression, dict):
        if set(expression) == {"type", "id"}:
            found.add(f'{expression["type"]}::"{expression["id"]}"')
        for part in expression.values():
            _entities(part, found)


def mentioned(expression: Any, found: set[str], *, of: str = "resource") -> None:
    """Adds to `found` what an expression looks at of a variable."""
    if isinstance(expression, list):
        for part in expression:
            mentioned(part, found, of=of)
        return
    if not isinstance(expression, dict):
        return
    member = _member(expression, {"Var": of})
    if member is not None:
        found.add(member)
        return
    if of == "resource" and expression.get("Var") == of:  # as it is: compared with others, or hidden in a record
        found.update(MEMBERS)
        return
    for name, part in expression.items():
        if name == "Record":
            mentioned(list(part.values()), found, of=of)  # whose keys mean nothing, even if they are called "Value"
        elif name != "Value":
            mentioned(part, found, of=of)


def _member(expression: dict[str, Any], variable: dict[str, str]) -> str | None:
    """`resource.types` -> types, `resource.quality.freshness` and `resource.quality has freshness` -> quality.freshness."""
    for kind in (".", "has"):
        access = expression.get(kind)
        if not isinstance(access, dict):
            continue
        left, name = access.get("left"), access.get("attr")
        if left == variable:
            return str(name)
        if isinstance(name, str) and left == {".": {"left": variable, "attr": "quality"}}:
            return f"quality.{name}"
    return None


# --- complaints ---------------------------------------------------------------------------------------------------------


def _in_words(complaint: str, attributes: Mapping[str, Any], criteria: Mapping[str, Any]) -> str:
    text = _one_line(_PREFIX.sub("", complaint))
    found = _NOT_FOUND.search(text)
    if found:
        return _unknown(found["name"], {*MEMBERS, "community", *attributes, *criteria})
    found = _UNSAFE.search(text)
    if found:
        return f"{found['name']!r} may be missing; ask first, as in `x has {found['name']} && x.{found['name']} …`"
    return text


def _unknown(name: str, known: set[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    meant = f"is {near[0]!r} meant?" if near else f"known are {', '.join(sorted(known))}"
    return f"there is no attribute {name!r}; {meant}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
