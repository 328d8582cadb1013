"""Verdicts and what is drawn of a way, without a page."""

from __future__ import annotations

from typing import Any

from hanse.client.ways import ClosedLink, Way, closed_links
from hanse.dashboard.whys import (
    NEWS_MAX,
    Heard,
    Subscriber,
    drawn,
    got_it,
    merged,
    newest,
    of_native,
    of_ngsi_ld,
    shortest,
    verdict,
)

LINKS = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "e")]
PLACES = {name: (float(i), 0.0) for i, name in enumerate("abcde")}
NO_PERSON = {"deny_types": ["Person"]}


def step(node: str, did: str, other: str = "", how: str = "") -> dict[str, Any]:
    return {"node": node, "at_ms": 1, "did": did, "other": other, "how": how}


def way(*steps: dict[str, Any], closed: tuple[tuple[str, str], ...] = ()) -> Way:
    links = [ClosedLink(*ends, NO_PERSON) for ends in closed]
    return Way({"publisher": "p", "id": "1"}, "a", [step("a", "published", "p"), *steps], links, {})


def why(*, matched: bool, stops: str = "", path: tuple[str, ...] = (), node: str = "d") -> dict[str, Any]:
    checks = [{"name": "active", "passed": True, "words": "It has no end."}]
    checks += [{"name": stops, "passed": False, "words": "No."}] if stops else []
    return {"node": node, "subscription": "s", "matched": matched, "delivered": not stops, "path": list(path), "checks": checks}


def test_verdicts() -> None:
    assert verdict(why(matched=True)).words == "Delivered: the subscription at d got it, since every check passes."
    assert verdict(why(matched=False, stops="content")) == (False, "Not delivered. content: No.")
    then = verdict(why(matched=True, stops="export rules"))
    assert then.delivered
    assert "As things are now it would not: export rules: No." in then.words
    assert "newer than the notification" in verdict(why(matched=False)).words


def test_what_was_delivered_is_drawn_to_its_end() -> None:
    shapes, involved = drawn(
        way(step("a", "sent", "c"), step("c", "heard", "a")), why(matched=True, path=("a", "b", "c"), node="c"), PLACES, LINKS
    )
    assert shapes["paths"][-1]["points"] == [PLACES[name] for name in "abc"]
    assert shapes["paths"][0] == {"points": [PLACES["a"], PLACES["c"]], "color": shapes["paths"][0]["color"], "thin": True}
    assert shapes["crosses"] == []
    assert involved == set("abc")


def test_what_a_rule_stopped_ends_on_the_link() -> None:
    shapes, involved = drawn(way(closed=(("a", "e"), ("b", "c"))), why(matched=False, stops="export rules"), PLACES, LINKS)
    assert shapes["crosses"] == [(1.5, 0.0)]
    assert shapes["paths"][-1]["points"] == [PLACES["a"], PLACES["b"], (1.5, 0.0)]
    assert involved == set("abd")


def test_what_a_filter_stopped_ends_where_it_came_to() -> None:
    there = way(step("a", "sent", "d"), step("d", "heard", "a"), closed=(("a", "e"),))
    assert drawn(there, why(matched=False, stops="content"), PLACES, LINKS)[0]["crosses"] == [PLACES["d"]]
    at_home = way(closed=(("a", "e"),))
    assert drawn(at_home, why(matched=False, stops="content"), PLACES, LINKS)[0]["crosses"] == [PLACES["a"]]


def test_without_a_subscriber_all_closed_links_are_crossed() -> None:
    assert drawn(way(closed=(("b", "c"), ("a", "gone"))), None, PLACES, LINKS)[0]["crosses"] == [(1.5, 0.0)]


def test_shortest() -> None:
    assert shortest("a", "d", LINKS) == list("abcd")
    assert shortest("a", "nowhere", LINKS) == ["a"]
    assert shortest("a", "a", LINKS) == ["a"]


def test_closed_links_are_those_where_it_could_have_gone_further() -> None:
    plain: dict[str, Any] = {"export": {}, "back": {}}
    links = [{"between": ["a", "b"], **plain}, {"between": ["b", "c"], "export": NO_PERSON, "back": {}}]
    links.append({"between": ["c", "d"], "export": NO_PERSON, "back": {}})  # where it never comes
    federation = {"nodes": [{"id": name} for name in "abcd"], "links": links}
    person = {"publisher": "p", "id": "1", "types": ["https://uri.etsi.org/ngsi-ld/default-context/Person"]}
    assert closed_links(federation, person, "a") == [ClosedLink("b", "c", NO_PERSON)]
    assert closed_links(federation, person | {"types": ["Ship"]}, "a") == []
    assert closed_links(federation, person, "unknown") == []


# --- what there is to choose from -------------------------------------------------------------------------------------


def trace(id_: str, at_ms: int, *did: str, type_: str = "Room") -> dict[str, Any]:
    steps = [{"did": one, "at_ms": at_ms, "other": f"to-{one}"} for one in did]
    return {
        "publisher": "p",
        "id": id_,
        "types": [type_],
        "entity": f"urn:x:{id_}",
        "topic": None,
        "at_ms": at_ms,
        "steps": steps,
    }


def test_what_nodes_tell_is_put_together_and_the_newest_is_first() -> None:
    known: dict[tuple[str, str], Heard] = merged(
        {}, "a", [trace("1", 10, "published", "sent"), trace("2", 30, "published", type_="Ship")]
    )
    known = merged(known, "b", [trace("1", 20, "heard", "delivered")])
    assert [one.id for one in newest(known.values())] == ["2", "1"]
    assert [one.id for one in newest(known.values(), "Room")] == [one.id for one in newest(known.values(), about="X:1")] == ["1"]
    first = known["p", "1"]
    assert (first.at_ms, first.outcome) == (10, "delivered to 1")
    assert (
        merged({}, "a", [trace("3", 1, "published", "withheld")])["p", "3"].outcome
        == "delivered to nobody, kept back by a policy"
    )


def test_what_is_remembered_is_bounded() -> None:
    known = merged({}, "a", [trace(str(i), i, "published") for i in range(NEWS_MAX + 100)])
    assert len(known) == NEWS_MAX
    assert ("p", "99") not in known


def test_subscribers_have_names_and_who_got_it_is_known() -> None:
    ngsi = of_ngsi_ld("d", {"id": "urn:ngsi-ld:Subscription:12345678", "entities": [{"type": "Room"}], "q": "t>1"})
    assert ngsi == Subscriber("d", "urn:ngsi-ld:Subscription:12345678", "d: Room where t>1 (12345678)")
    native = of_native("d", "bob", "ships", {"selectors": [{"type": "Ship"}]})
    assert native == Subscriber("d", "bob/ships", "d: bob, ships: Ship")
    came = way(step("d", "delivered", "bob", "ships"), step("d", "delivered", "ngsi-ld/x", "urn:ngsi-ld:Subscription:12345678"))
    assert got_it(came, ngsi)
    assert got_it(came, native)
    assert not got_it(came, of_native("d", "eve", "ships", {}))
    assert not got_it(came, of_native("c", "bob", "ships", {}))
