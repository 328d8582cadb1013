"""What travels is checked when it is made, and when it is decoded."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from hanse.model import Advertisement, InvalidInput, Notification, ScopePath, Selector, Subscription


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Notification(id="", publisher="p"), "id of a notification is empty"),
        (lambda: Notification(id="n", publisher=""), "publisher"),
        (lambda: Notification(id="n", publisher="p", media_type="text/plain"), "media type"),
        (lambda: Notification(id="n", publisher="p", payload="x" * (1 << 20) + "x"), "payload"),
        (lambda: Notification(id="n", publisher="p", scopes={"area": "⊤"}), "leave dimension 'area' out"),
        (lambda: Subscription(id="s", client="c", scopes={"": "x"}), "dimension"),
        (lambda: Subscription(id="s" * 3000, client="c"), "longer than"),
        (lambda: Subscription(id="s", client="c", selectors=(Selector(),) * 65), "more than 64"),
        (lambda: Advertisement(id="a", client="c", scopes={"area": ""}), "scope in dimension 'area'"),
        (lambda: Selector(type=""), "type of a selector"),
        (lambda: ScopePath("area", ()), "names no scope"),
        (lambda: ScopePath("", ("x",)), "dimension"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        make()


def test_decoding_checks_too() -> None:
    with pytest.raises(msgspec.ValidationError, match="is empty"):
        msgspec.json.decode(b'{"id": "", "publisher": "p"}', type=Notification)


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Notification(id="n", publisher="p").id = "m"  # type: ignore[misc]


def test_an_xml_payload_is_carried_as_it_came() -> None:
    n = Notification(id="n", publisher="p", payload="<observation/>", media_type="application/xml")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(n), type=Notification) == n


def test_a_place_can_be_put_in_front_of_a_complaint() -> None:
    error = InvalidInput("is wrong", place="line 3").at("file.toml")
    assert str(error) == "file.toml: line 3: is wrong"
