from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.ngsild.contexts import compile_context
from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.ngsild.registration_subscriptions import (
    RegistrationSubscription,
    decode_registration_subscription,
    encode_registration_subscription,
    notification,
    parse_registration_subscription,
    patch_registration_subscription,
    reason,
    represent_registration_subscription,
)
from hanse.ngsild.registrations import Registration, matching_information, parse_registration
from hanse.ngsild.subscriptions import Counters

NOW = "2026-01-01T00:00:00.000000Z"
NOW_MS = 1_767_225_600_000
CITY = compile_context({"Building": "https://city.example/Building", "height": "https://city.example/height"})
TIME = {"timerel": "after", "timeAt": "2020-06-01T22:07:00Z"}


def body(**members: Any) -> dict[str, Any]:
    return {
        "id": "urn:ngsi-ld:Subscription:1",
        "type": "Subscription",
        "entities": [{"type": "Building"}],
        "notification": {
            "format": "keyValues",
            "endpoint": {"uri": "http://client.example/notify", "accept": "application/json"},
        },
    } | members


def subscription(**members: Any) -> RegistrationSubscription:
    return parse_registration_subscription(body(**members), CITY, NOW)


def registration(*information: dict[str, Any], **members: Any) -> Registration:
    given_body = {
        "id": "urn:r:1",
        "type": "ContextSourceRegistration",
        "endpoint": "http://source.example",
        "information": list(information) or [{"entities": [{"type": "Building"}]}],
    }
    return parse_registration(given_body | members, CITY, NOW)


def test_it_is_shown_as_it_was_given() -> None:
    given_body = body(temporalQ=TIME, csf='sourceType=="sensor"', scopeQ="/a/#")
    kept = encode_registration_subscription(parse_registration_subscription(given_body, CITY, NOW))
    shown = represent_registration_subscription(decode_registration_subscription(kept), CITY, Counters(), NOW_MS)
    assert shown == given_body | {"status": "active"}


def test_one_without_an_id_gets_one() -> None:
    given_body = body()
    del given_body["id"]
    assert parse_registration_subscription(given_body, CITY, NOW).id.startswith("urn:ngsi-ld:Subscription:")


@pytest.mark.parametrize(
    "members",
    [
        {"type": "Building"},
        {"notification": None},
        {"q": "speed>"},
        {"csf": "a=="},
        {"watchedAttributes": []},
        {"expiresAt": "2018-01-01T00:00:00Z"},
        {"temporalQ": "yesterday"},
        {"temporalQ": {"timerel": "after"}},
    ],
)
def test_what_makes_no_sense_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises((BadRequestData, InvalidInput)):
        subscription(**members)


@pytest.mark.parametrize(
    "fragment", [{"type": None}, {"notification": {"format": "keyValues"}}, {"temporalQ": {}}, {"id": "urn:b:1"}]
)
def test_a_patch_that_makes_no_sense_is_refused(fragment: dict[str, Any]) -> None:
    with pytest.raises(BadRequestData):
        patch_registration_subscription(subscription(), fragment, CITY, NOW)


def test_a_patch_puts_members_in_the_place_of_others() -> None:
    old = subscription(temporalQ=TIME, csf='a=="b"')
    new = patch_registration_subscription(old, {"temporalQ": None, "csf": None, "entities": [{"type": "Tower"}]}, CITY, NOW)
    shown = represent_registration_subscription(new, CITY, Counters(), NOW_MS)
    assert shown["entities"] == [{"type": "Tower"}]
    assert "temporalQ" not in shown
    assert new.sought().time is None
    assert new.sought().csf == ""


@given(
    st.dictionaries(
        st.sampled_from(["temporalQ", "csf", "geoQ", "entities", "expiresAt", "type", "scopeQ", "watchedAttributes"]),
        st.none()
        | st.text(max_size=8)
        | st.integers()
        | st.dictionaries(st.sampled_from(["timerel", "timeAt"]), st.text(max_size=5)),
    ),
    st.booleans(),
)
def test_nothing_but_a_refusal_comes_of_nonsense(members: dict[str, Any], whole: bool) -> None:
    with contextlib.suppress(NgsiLdError, InvalidInput):
        if whole:
            subscription(**members).sought()
        else:
            patch_registration_subscription(subscription(), members, CITY, NOW).sought()


@pytest.mark.parametrize(
    ("watched", "shown", "fits"),
    [(["width"], None, True), (None, ["width"], True), (["width"], ["width"], False), (["width"], ["height"], True)],
)
def test_attributes_count_where_they_are_watched_and_shown(watched: Any, shown: Any, fits: bool) -> None:
    members: dict[str, Any] = {"watchedAttributes": watched} if watched else {}
    notice = body()["notification"] | ({"attributes": shown} if shown else {})
    wanted = subscription(**members, notification=notice).sought()
    found = registration({"entities": [{"type": "Building"}], "propertyNames": ["height"]})
    assert bool(matching_information(found, wanted)) == fits


def test_why_a_subscriber_is_told() -> None:
    sought = subscription().sought()
    building, tower = registration(), registration({"entities": [{"type": "Tower"}]})
    assert reason(sought, None, building) == "newlyMatching"
    assert reason(sought, tower, building) == "newlyMatching"
    assert reason(sought, building, building) == "updated"
    assert reason(sought, building, tower) == "noLongerMatching"
    assert reason(sought, building, None) == "noLongerMatching"
    assert reason(sought, tower, tower) is None
    assert reason(sought, None, tower) is None


def test_a_notification_has_what_matters_to_its_subscriber() -> None:
    found = registration({"entities": [{"type": "Building"}]}, {"entities": [{"type": "Tower"}]})
    told = notification(subscription(), [found], "newlyMatching", CITY, NOW)
    assert told["type"] == "ContextSourceNotification"
    assert told["subscriptionId"] == "urn:ngsi-ld:Subscription:1"
    assert (told["notifiedAt"], told["triggerReason"]) == (NOW, "newlyMatching")
    assert [item["information"] for item in told["data"]] == [[{"entities": [{"type": ["Building"]}]}]]
    gone = notification(
        subscription(),
        [registration({"propertyNames": ["height"], "entities": [{"type": "Tower"}]})],
        "noLongerMatching",
        CITY,
        NOW,
    )
    assert gone["data"][0]["information"] == [{"propertyNames": ["height"], "entities": [{"type": ["Tower"]}]}]


def test_the_context_is_in_the_body_for_those_who_want_it_there() -> None:
    wanted = subscription(notification={"endpoint": {"uri": "http://client.example", "accept": "application/ld+json"}})
    told = notification(wanted, [registration()], "updated", CITY, NOW)
    assert told["@context"] == told["data"][0]["@context"] == CITY.document()
