"""What is remembered is remembered by everything that a policy looks at, and what is less exact is so everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.policies import PolicySet, Principal, Resource, Uniform
from hanse.policies.obfuscation import obfuscated, obfuscation

SOMEBODY = Principal("somebody")


def asked_twice(policies: PolicySet, first: Resource, second: Resource) -> bool:
    assert policies.decide(SOMEBODY, "read", first).allowed
    return policies.decide(SOMEBODY, "read", second).allowed


def test_a_kind_and_a_name_in_the_head_of_a_policy_are_looked_at() -> None:
    policies = PolicySet.load('permit (principal, action, resource is Data in Data::"urn:room:1");')
    assert not asked_twice(policies, Resource(id="urn:room:1"), Resource(id="urn:room:2"))
    assert Uniform(policies).decision(SOMEBODY, "read", ("Room",)) is None


def test_a_member_in_a_record_is_looked_at_whatever_its_key() -> None:
    policies = PolicySet.load('permit (principal, action, resource) unless { {Value: resource.attribute}.Value == "occupancy" };')
    assert not asked_twice(policies, Resource(attribute="name"), Resource(attribute="occupancy"))


def test_principals_in_a_record_or_a_condition_are_looked_at() -> None:
    chosen = '(if principal.id == "a" then Role::"r" else Role::"q")'
    for condition in ('{Value: principal.id}.Value == "a"', f"principal is User in {chosen}"):
        policies = PolicySet.load(f"permit (principal, action, resource) when {{ {condition} }};")
        assert policies.decide(Principal("a", roles=("r",)), "read", Resource()).allowed
        assert not policies.decide(Principal("b", roles=("r",)), "read", Resource()).allowed


def test_true_is_not_one() -> None:
    policies = PolicySet.load(
        "permit (principal, action, resource) when { principal has level && principal.level >= 1 };",
        attributes={"level": "number"},
    )
    one, true = Principal("a", attributes={"level": 1}), Principal("a", attributes={"level": True})
    assert one != true
    assert policies.decide(one, "read", Resource()).allowed
    assert not policies.decide(true, "read", Resource()).allowed


@pytest.mark.parametrize(
    ("way", "value", "left"),
    [
        ("round 10", {"value": {"type": 21.7, "observedAt": 33}}, {"value": {"type": 20.0, "observedAt": 30}}),
        (
            "coarsen 1000",
            {"type": "GeometryCollection", "bbox": [2.35, 48.85, 2.36, 48.86], "geometries": []},
            {"type": "GeometryCollection", "geometries": []},
        ),
    ],
)
def test_nothing_exact_is_left_beside_it(way: str, value: Any, left: Any) -> None:
    assert obfuscated(value, (obfuscation(way),)) == left
