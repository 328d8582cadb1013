"""The index of registrations finds those that are found by looking at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE
from hanse.ngsild.distributed_index import RegistrationIndex
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.registrations import Registration, Sought, matching_information, parse_registration

TYPES = ["Car", "Bus", "Tram"]
IDS = [f"urn:v:{number}" for number in range(3)]
ENTITIES = st.builds(
    lambda types, id_, pattern: {"type": types} | ({"id": id_} if id_ else {}) | ({"idPattern": pattern} if pattern else {}),
    st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True),
    st.none() | st.sampled_from(IDS),
    st.none() | st.sampled_from(["urn:v:[12]", ".*"]),
)
INFORMATION = st.lists(
    st.builds(
        lambda entities: {"propertyNames": ["speed"]} | ({"entities": entities} if entities else {}),
        st.lists(ENTITIES, max_size=2),
    ),
    min_size=1,
    max_size=2,
)
SELECTORS = st.lists(
    st.builds(
        EntitySelector,
        st.lists(
            st.lists(st.sampled_from([CORE.expand_term(name) for name in TYPES]), min_size=1, max_size=2).map(tuple), max_size=2
        ).map(tuple),
        st.lists(st.sampled_from(IDS), max_size=2).map(tuple),
        st.none() | st.sampled_from(["urn:v:0", ".*"]),
    ),
    max_size=2,
).map(tuple)


def registration(number: int, information: list[dict[str, object]]) -> Registration:
    body = {"id": f"urn:r:{number}", "type": "ContextSourceRegistration", "information": information, "endpoint": "http://a:1"}
    return parse_registration(body, CORE, "2030-01-01T00:00:00Z")


@given(st.lists(st.tuples(st.integers(0, 4), INFORMATION), max_size=10), SELECTORS, st.sets(st.integers(0, 4)))
def test_it_finds_what_looking_at_all_finds(
    given_: list[tuple[int, list[dict[str, object]]]], selectors: tuple[EntitySelector, ...], gone: set[int]
) -> None:
    index = RegistrationIndex()
    kept: dict[str, Registration] = {}
    for number, information in given_:  # some come in the place of others
        new = registration(number, information)
        if new.id in kept:
            index.remove(kept[new.id])
        kept[new.id] = new
        index.add(new)
    for number in gone:
        if (old := kept.pop(f"urn:r:{number}", None)) is not None:
            index.forget(old)
    sought = Sought(selectors=selectors)
    candidates = index.candidates(selectors)
    assert set(candidates) <= set(kept)
    found = [id_ for id_ in candidates if matching_information(kept[id_], sought)]
    assert found == [id_ for id_, one in kept.items() if matching_information(one, sought)]


def test_a_request_for_one_of_many_devices_looks_at_its_own_registration() -> None:
    index = RegistrationIndex()
    for number in range(1000):
        entities = [{"type": "Car", "id": f"urn:v:{number}"}]
        index.add(registration(number, [{"entities": entities, "propertyNames": ["speed"]}]))
    assert index.candidates((EntitySelector((), ("urn:v:7",)),)) == ["urn:r:7"]
    assert index.candidates((EntitySelector(((CORE.expand_term("Bus"),),)),)) == []
