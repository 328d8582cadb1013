"""Who has which part of a request: the modes of registrations, and what is left for the node itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE
from hanse.ngsild.distributed import asked_of, claimed_names, divide, narrowed, without
from hanse.ngsild.entity import Entity
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.registrations import Registration, parse_registration

NOW = "2030-01-01T00:00:00.000000Z"
CAR = "urn:ngsi-ld:Vehicle:1"
SPEED, BRAND, PLACE = (CORE.expand_term(name) for name in ("speed", "brandName", "place"))
VEHICLE = CORE.expand_type("Vehicle")
HERE = EntitySelector(((VEHICLE,),), (CAR,))


def registration(
    mode: str, *names: str, id_: str | None = None, operations: tuple[str, ...] = ("redirectionOps",)
) -> Registration:
    entity: dict[str, Any] = {"type": "Vehicle"} | ({"id": id_} if id_ or mode == "exclusive" else {})
    if mode == "exclusive":
        entity["id"] = id_ or CAR
    info: dict[str, Any] = {"entities": [entity]} | ({"propertyNames": list(names)} if names else {})
    return parse_registration(
        {
            "id": f"urn:ngsi-ld:ContextSourceRegistration:{mode}{'-'.join(names)}{id_ or ''}{len(operations)}",
            "type": "ContextSourceRegistration",
            "mode": mode,
            "operations": list(operations) if mode != "auxiliary" else ["retrieveOps"],
            "information": [info],
            "endpoint": "http://127.0.0.1:1",
        },
        CORE,
        NOW,
    )


def test_an_exclusive_source_gets_its_attribute_and_the_node_the_rest() -> None:
    exclusive = registration("exclusive", "speed")
    division = divide([exclusive], HERE, frozenset({SPEED, BRAND}), "createEntity")
    assert [(share.registration, share.names) for share in division.shares] == [(exclusive, frozenset({SPEED}))]
    assert division.taken == {SPEED}
    assert division.is_local


def test_nothing_is_done_here_if_others_have_all_of_it() -> None:
    assert not divide([registration("exclusive", "speed")], HERE, frozenset({SPEED}), "createEntity").is_local
    assert not divide([registration("redirect")], HERE, frozenset({SPEED, BRAND}), "createEntity").is_local
    assert not divide([registration("redirect")], HERE, None, "deleteEntity").is_local


def test_what_is_not_concerned_is_left_alone() -> None:
    other = EntitySelector(((VEHICLE,),), ("urn:ngsi-ld:Vehicle:2",))
    assert divide([registration("exclusive", "speed")], other, frozenset({SPEED}), "createEntity").shares == ()
    assert divide([registration("exclusive", "speed")], HERE, frozenset({BRAND}), "createEntity").shares == ()


def test_an_inclusive_source_gets_what_nobody_has_for_itself() -> None:
    shared = registration("inclusive")
    division = divide([shared, registration("exclusive", "speed")], HERE, frozenset({SPEED, BRAND}), "createEntity")
    assert {share.registration.mode: share.names for share in division.shares} == {
        "exclusive": frozenset({SPEED}),
        "inclusive": frozenset({BRAND}),
    }
    assert division.is_local
    assert divide([shared, registration("redirect")], HERE, frozenset({SPEED}), "createEntity").shares[0].registration.mode == (
        "redirect"
    )


def test_what_a_source_cannot_do_is_refused_only_if_it_has_it_for_itself() -> None:
    reading = ("retrieveOps",)
    assert divide([registration("inclusive", operations=reading)], HERE, frozenset({SPEED}), "createEntity").refused == ()
    redirect = registration("redirect", operations=reading)
    division = divide([redirect], HERE, frozenset({SPEED}), "createEntity")
    assert [share.registration for share in division.refused] == [redirect]
    assert not division.is_local


def test_auxiliary_sources_only_read() -> None:
    auxiliary = registration("auxiliary")
    assert divide([auxiliary], HERE, frozenset({SPEED}), "createEntity").shares == ()
    assert [share.registration for share in asked_of([auxiliary], (HERE,), frozenset(), frozenset({"retrieveEntity"}))] == [
        auxiliary
    ]


def test_a_source_is_asked_for_no_more_than_it_is_registered_with() -> None:
    every = EntitySelector(((VEHICLE,),))
    assert narrowed(registration("exclusive", "speed"), every) == EntitySelector(((VEHICLE,),), (CAR,))
    assert narrowed(registration("inclusive"), EntitySelector((), (CAR,))) == HERE
    shares = asked_of([registration("inclusive", "speed")], (every,), frozenset({SPEED, BRAND}), frozenset({"queryEntity"}))
    assert [share.names for share in shares] == [frozenset({SPEED})]
    assert asked_of([registration("inclusive", "speed")], (every,), frozenset({BRAND}), frozenset({"queryEntity"})) == []


def test_what_others_have_for_themselves_is_not_known_from_here() -> None:
    entity = Entity(id=CAR, types=(VEHICLE,), attributes={SPEED: [{"type": "Property", "value": 1}], BRAND: []})
    claims = claimed_names([registration("exclusive", "speed")], entity)
    assert claims == frozenset({SPEED})
    assert list(without(entity, claims).attributes) == [BRAND]
    assert claimed_names([registration("redirect")], entity) is None


MODES = st.sampled_from(["inclusive", "exclusive", "redirect", "auxiliary"])
NAMES = st.lists(st.sampled_from(["speed", "brandName", "place"]), min_size=1, unique=True).map(tuple)
REGISTRATIONS = st.lists(
    st.builds(
        lambda mode, names, whole, can: registration(
            mode,
            *(names if mode == "exclusive" or not whole else ()),
            operations=("redirectionOps",) if can else ("retrieveOps",),
        ),
        MODES,
        NAMES,
        st.booleans(),
        st.booleans(),
    ),
    max_size=5,
)


@given(REGISTRATIONS, st.sets(st.sampled_from([SPEED, BRAND, PLACE]), min_size=1).map(frozenset))
def test_every_attribute_goes_somewhere_and_what_is_claimed_stays_with_who_claims_it(
    registrations: list[Registration], names: frozenset[str]
) -> None:
    division = divide(registrations, HERE, names, "createEntity")
    local = names - division.taken if division.is_local else frozenset()
    claimed = frozenset[str]().union(
        *(
            share.names or frozenset()
            for share in (*division.shares, *division.refused)
            if share.registration.mode in ("exclusive", "redirect")
        )
    )
    assert local | claimed == names  # nothing is lost
    assert not local & claimed  # and nothing that somebody has for itself is kept here
    for share in division.shares:
        assert "createEntity" in share.registration.operations
        assert share.registration.mode != "auxiliary"
        if share.registration.mode == "inclusive":
            assert share.names is not None
            assert not share.names & claimed
    backwards = divide(registrations[::-1], HERE, names, "createEntity")
    assert {(s.registration.id, s.names) for s in backwards.shares} == {(s.registration.id, s.names) for s in division.shares}
