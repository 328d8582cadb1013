"""Who may do what: Cedar's meaning, what an obfuscation does to a decision, and what is refused when policies are loaded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import Circle, InvalidInput, Location
from hanse.policies import (
    ACTIONS,
    ANONYMOUS,
    Action,
    Decision,
    Obfuscation,
    Override,
    PolicySet,
    Principal,
    Resource,
    Uniform,
    explain,
    summary,
)

CHIEF = Principal("alice", community="fire", roles=("chief",), attributes={"clearance": 3})
GUEST = Principal("bob", community="tourism")
OCCUPANCY = Resource(types=("https://example.org/Room",), id="urn:room:1", attribute="https://example.org/occupancy")

TOWN = """
@id("everyone reads rooms") @obfuscate("round 10")
permit (principal, action == Action::"read", resource) when { resource.types.contains("Room") };
@id("chiefs read plainly")
permit (principal in Role::"chief", action == Action::"read", resource);
@id("no names")
forbid (principal, action, resource) when { resource.attribute == "name" };
"""


def test_nothing_is_allowed_that_nothing_permits() -> None:
    assert PolicySet.load("").decide(CHIEF, "read", OCCUPANCY) == Decision(False)
    assert PolicySet.load(TOWN).decide(CHIEF, "publish", OCCUPANCY) == Decision(False)
    assert PolicySet.load(TOWN).decide(GUEST, "read", Resource(types=("Car",))) == Decision(False)


def test_a_permit_without_obfuscation_gives_it_plain() -> None:
    town = PolicySet.load(TOWN)
    assert town.decide(GUEST, "read", OCCUPANCY) == Decision(True, ("everyone reads rooms",), (Obfuscation("round", 10.0),))
    assert town.decide(CHIEF, "read", OCCUPANCY) == Decision(True, ("chiefs read plainly", "everyone reads rooms"))


def test_all_obfuscations_of_permits_that_apply_count() -> None:
    policies = PolicySet.load("""
        @id("a") @obfuscate("round 10") permit (principal, action, resource);
        @id("b") @obfuscate("coarsen 500") permit (principal, action, resource);
    """)
    assert policies.decide(GUEST, "read", OCCUPANCY).obfuscations == (Obfuscation("coarsen", 500.0), Obfuscation("round", 10.0))


def test_a_forbid_beats_every_permit() -> None:
    decision = PolicySet.load(TOWN).decide(CHIEF, "read", OCCUPANCY.of("https://example.org/name"))
    assert decision == Decision(False, ("no names",))
    assert decision.is_forbidden


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('resource.types.contains("Room")', True),
        ('resource.types.contains("https://example.org/Room")', True),
        ('resource.attribute == "occupancy"', True),
        ('resource.attribute == "https://example.org/occupancy"', False),
        ('resource.attributeUri == "https://example.org/occupancy"', True),
        ('resource.id like "urn:room:*"', True),
        ('resource == Data::"urn:room:1"', True),
        ('resource == Data::"urn:room:2"', False),
        ('resource.scopes.contains("/Paris")', True),
        ('resource.scopes.contains("/Paris/Est")', True),
        ('resource.scopes.contains("/Par")', False),
        ('resource.areas.contains("centre")', True),
        ('resource.tenant == "harbour"', True),
        ("resource.quality has precision && resource.quality.precision >= 40", True),
        ("resource.quality has precision && resource.quality.precision >= 41", False),
        ("resource.quality has freshness && resource.quality.freshness <= 60", False),
        ("resource.quality has trust", False),
        ('principal in Community::"fire"', True),
        ('principal in Community::"police"', False),
        ('principal.community == "fire" && principal.id == "alice"', True),
        ("principal has clearance && principal.clearance >= 3", True),
        ("principal is User", True),
        ("principal is Node", False),
    ],
)
def test_what_policies_see(condition: str, expected: bool) -> None:
    policies = PolicySet.load(f"permit (principal, action, resource) when {{ {condition} }};", attributes={"clearance": "number"})
    resource = Resource(
        types=OCCUPANCY.types,
        id=OCCUPANCY.id,
        attribute=OCCUPANCY.attribute,
        scopes=("/Paris/Est",),
        areas=("centre",),
        quality={"precision": 40.9, "freshness": 60.2},  # rounded to the worse
        tenant="harbour",
    )
    assert policies.decide(CHIEF, "read", resource).allowed is expected


def test_areas_are_where_something_lies() -> None:
    policies = PolicySet.load("", areas={"centre": Circle.of_km(48.85, 2.35, 5), "town": Circle.of_km(48.85, 2.35, 20)})
    assert policies.areas_at(Location(48.86, 2.35)) == ("centre", "town")
    assert policies.areas_at(Location(48.95, 2.35)) == ("town",)
    assert policies.areas_at(None) == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("permt (principal, action, resource);", "the policies cannot be read: .*permt"),
        (
            'permit (principal, action, resource) when { resource.typs.contains("Room") };',
            "'policy0': there is no attribute 'typs'; is 'types'",
        ),
        (
            "permit (principal, action, resource) when { resource.quality.freshnes > 3 };",
            "no attribute 'quality.freshnes'; is 'quality.freshness' meant",
        ),
        (
            "permit (principal, action, resource) when { principal has clearnce };",
            "no attribute 'clearnce'; is 'clearance' meant",
        ),
        ("permit (principal, action, resource) when { principal.clearance > 3 };", "'clearance' may be missing; ask first"),
        ('permit (principal, action == Action::"red", resource);', "unrecognized action"),
        ('permit (principal in Rle::"x", action, resource);', "unrecognized entity type `Rle`"),
        ('@obfuscate("blur") permit (principal, action, resource);', "'blur' is no obfuscation; write"),
        ('@obfuscate("coarsen 0.1") permit (principal, action, resource);', "coarsen to between"),
        ('@obfuscate("remove") forbid (principal, action, resource);', "put @obfuscate on a permit"),
        ('@obfuscat("remove") permit (principal, action, resource);', "@obfuscat means nothing here"),
        ('@overrules("*") permit (principal, action, resource);', "@overrules is for overrides"),
        ("permit (principal == ?principal, action, resource);", "template"),
        (
            '@id("a") permit (principal, action, resource); @id("a") permit (principal, action, resource);',
            "two policies have the id 'a'",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_loaded(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as refusal:
        PolicySet.load(text, attributes={"clearance": "number"})
    assert "\n" not in str(refusal.value)


def test_an_attribute_of_another_kind_than_was_said_is_not_there() -> None:
    policies = PolicySet.load(
        "permit (principal, action, resource) when { principal has clearance && principal.clearance >= 3 };",
        attributes={"clearance": "number"},
    )
    assert policies.decide(CHIEF, "read", OCCUPANCY).allowed
    assert not policies.decide(Principal("eve", attributes={"clearance": "9"}), "read", OCCUPANCY).allowed


def test_what_fails_denies_and_is_told() -> None:
    policies = PolicySet.load(
        """
        permit (principal, action, resource);
        @id("sum") forbid (principal, action, resource)
        when { principal has clearance && principal.clearance * 9223372036854775807 > 3 };
        """,
        attributes={"clearance": "number"},
    )
    told: list[str] = []
    policies.tell = told.append
    decision = policies.with_overrides(()).decide(CHIEF, "read", OCCUPANCY)
    assert not decision.allowed
    assert decision.is_forbidden
    assert len(told) == 1
    assert "overflow" in told[0]
    assert any("overflow" in error for error in decision.errors)
    assert any("what fails denies" in line for line in explain(policies, CHIEF, "read", OCCUPANCY).lines)


# --- overrides ----------------------------------------------------------------------------------------------------------


def override(text: str, name: str = "alarm") -> Override:
    return Override(name=name, policies=text, since_ms=0, until_ms=60_000, reason="fire in the town hall", by="alice")


BRIGADE = 'permit (principal in Community::"fire", action == Action::"read", resource)'


def test_an_override_adds_its_policies() -> None:
    base = PolicySet.load('@id("own") permit (principal == User::"carol", action, resource);')
    assert not base.decide(CHIEF, "read", OCCUPANCY).allowed
    during = base.with_overrides((override(f'@id("brigade") {BRIGADE};'),))
    assert during.decide(CHIEF, "read", OCCUPANCY) == Decision(True, ("alarm/brigade",))
    assert not during.decide(GUEST, "read", OCCUPANCY).allowed
    assert not during.with_overrides(()).decide(CHIEF, "read", OCCUPANCY).allowed


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [("", False), ('@overrules("private")', True), ('@overrules("*")', True), ('@overrules("late")', False)],
)
def test_a_permit_of_an_override_beats_a_forbid_only_if_it_says_so(annotation: str, expected: bool) -> None:
    base = PolicySet.load("""
        @id("private") forbid (principal, action, resource) when { resource.attribute == "occupancy" };
        @id("late") forbid (principal, action, resource) when { resource.attribute == "name" };
    """)
    during = base.with_overrides((override(f"{annotation} {BRIGADE};"),))
    assert during.decide(CHIEF, "read", OCCUPANCY).allowed is expected
    assert not during.decide(GUEST, "read", OCCUPANCY).allowed


def test_nothing_beats_a_forbid_of_an_override() -> None:
    during = PolicySet.load("").with_overrides(
        (
            override(f'@overrules("*") {BRIGADE};'),
            override('@id("sealed") forbid (principal, action, resource);', "crime scene"),
        )
    )
    assert during.decide(CHIEF, "read", OCCUPANCY) == Decision(False, ("crime scene/sealed",))


def test_an_override_that_overrules_what_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'alarm/policy0': there is no policy 'privat' to overrule; there are private"):
        PolicySet.load('@id("private") forbid (principal, action, resource);').with_overrides(
            (override(f'@overrules("privat") {BRIGADE};'),)
        )


# --- words --------------------------------------------------------------------------------------------------------------


def test_explanations_name_the_policy_and_what_it_does_to_values() -> None:
    town = PolicySet.load(TOWN)
    told = explain(town, GUEST, "read", OCCUPANCY)
    assert told.allowed
    assert told.policies == ("everyone reads rooms",)
    assert told.obfuscations == ("round 10",)
    assert told.lines[0] == 'User::"bob" may read attribute https://example.org/occupancy of urn:room:1'
    assert told.lines[-1] == "no permit that applies shows it as it is, so it is shown after round 10"
    assert "nothing permits is denied" in explain(town, GUEST, "publish", OCCUPANCY).lines[-1]
    assert [summary(policy) for policy in town.policies] == [
        "everyone reads rooms: permits everyone to read data under conditions looking at types, after round 10",
        'chiefs read plainly: permits everyone in Role::"chief" to read data',
        "no names: forbids everyone to do anything with data under conditions looking at attribute",
    ]


# --- what is remembered changes nothing -----------------------------------------------------------------------------------

CONDITIONS = st.sampled_from(
    [
        "true",
        'resource.types.contains("Room")',
        'resource.types.contains("Car") && resource.attribute == "b"',
        'resource.attribute == "a"',
        'resource.id like "urn:1*"',
        'resource.scopes.contains("/x") || resource.types.contains("Room")',
        "resource.quality has precision && resource.quality.precision >= 50",
        'principal in Role::"chief"',
        'principal == User::"bob"',
        'principal in [Community::"tourism", Community::"x"] || principal.community == "fire"',
        'principal is Node && principal.id like "fire*"',
        '{p: principal}.p.id == "bob"',
        'principal has clearance && principal.clearance > 2 && resource.areas.contains("centre")',
        '!(resource.types.contains("Room"))',
        'resource.tenant == "t" && resource == Data::"urn:11"',
    ]
)
POLICIES = st.lists(
    st.tuples(
        st.sampled_from(["permit", "permit", "forbid"]),
        st.sampled_from(["action", 'action == Action::"read"', 'action in [Action::"read", Action::"publish"]']),
        st.sampled_from(["when", "unless"]),
        CONDITIONS,
        st.sampled_from(["", '@obfuscate("round 10")', '@obfuscate("remove")']),
    ),
    max_size=5,
)
RESOURCES = st.builds(
    Resource,
    types=st.sampled_from([(), ("Room",), ("Car",), ("Car", "Room")]),
    id=st.sampled_from(["urn:11", "urn:12", "urn:2"]),
    attribute=st.sampled_from(["", "a", "http://b/b"]),
    scopes=st.sampled_from([(), ("/x/y",)]),
    areas=st.sampled_from([(), ("centre",)]),
    quality=st.sampled_from([{}, {"precision": 49.9}, {"precision": 50.0, "trust": 1.0}]),
    tenant=st.sampled_from(["", "t"]),
)
PRINCIPALS = st.sampled_from([CHIEF, GUEST, ANONYMOUS, Principal("fire-1", kind="Node")])


def written(policies: list[tuple[str, str, str, str, str]]) -> str:
    return "".join(
        f"{how if effect == 'permit' else ''} {effect} (principal, {action}, resource) {kind} {{ {condition} }};\n"
        for effect, action, kind, condition, how in policies
    )


@given(POLICIES, st.lists(st.tuples(PRINCIPALS, st.sampled_from(ACTIONS), RESOURCES), min_size=2, max_size=30))
def test_a_decision_that_is_remembered_is_the_one_that_would_be_made(policies: list[Any], requests: list[Any]) -> None:
    text = written(policies)
    kept = PolicySet.load(text, attributes={"clearance": "number"})
    for principal, action, resource in requests:
        fresh = PolicySet.load(text, attributes={"clearance": "number"})
        assert kept.decide(principal, action, resource) == fresh.decide(principal, action, resource)


@given(POLICIES, PRINCIPALS, st.sampled_from(ACTIONS), st.lists(RESOURCES, min_size=1, max_size=30))
def test_a_uniform_decision_holds_for_everything_of_the_types(
    policies: list[Any], principal: Principal, action: Action, resources: list[Resource]
) -> None:
    known = PolicySet.load(written(policies), attributes={"clearance": "number"})
    uniform = Uniform(known)
    for resource in resources:
        answer = uniform.decision(principal, action, resource.types, tenant=resource.tenant)
        if answer is not None:
            decision = known.decide(principal, action, resource)
            assert (decision.allowed, decision.obfuscations) == (answer.allowed, answer.obfuscations)


def test_uniform_where_policies_for_other_types_look_at_more() -> None:
    uniform = Uniform(
        PolicySet.load("""
        permit (principal, action, resource) when { resource.types.contains("Car") };
        forbid (principal, action, resource) when { resource.types.contains("Room") && resource.attribute == "name" };
    """)
    )
    assert uniform.decision(GUEST, "read", ("Car",)) == Decision(True, ("policy0",))
    assert uniform.decision(GUEST, "read", ("Bus",)) == Decision(False)
    assert uniform.decision(GUEST, "read", ("Car", "Room")) is None
