"""XML payloads: hostile ones are refused with a clear message, good ones are parsed once."""

from __future__ import annotations

import pytest

from hanse.model import InvalidInput, Notification, check_payload, document_of, parse_xml
from hanse.model.payload import MAX_XML_CHARACTERS, MAX_XML_DEPTH, MAX_XML_ELEMENTS
from hanse.model.values import MAX_PAYLOAD

LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
NO_TYPE = "the payload declares a document type; leave it out"


def published(payload: str) -> Notification:
    return Notification(id="n", publisher="p", payload=payload, media_type="application/xml")


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><a>&l9;</a>', NO_TYPE),
        (f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><a b="&l9;"/>', NO_TYPE),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', NO_TYPE),
        ('<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1:1/x"> %x;]><a/>', NO_TYPE),
        ('<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a.dtd"><a/>', NO_TYPE),
        ("<!DOCTYPE a><a/>", NO_TYPE),
        ("<?xml version='1.0'?><!-- c --><!DOCTYPE a><a/>", NO_TYPE),
        ("<!doctype a><a/>", "not well-formed XML"),
        ("<a>&x;</a>", "not well-formed XML: Entity 'x' not defined"),
        ("<a>" * 100_000 + "</a>" * 100_000, "characters; 262144 are allowed in XML"),
        ("<a>" * 20_000 + "</a>" * 20_000, f"nests its elements more than {MAX_XML_DEPTH} deep"),
        ("<a>" * (MAX_XML_DEPTH + 1) + "</a>" * (MAX_XML_DEPTH + 1), f"nests its elements more than {MAX_XML_DEPTH} deep"),
        ("<a>" + "<b/>" * MAX_XML_ELEMENTS + "</a>", f"the payload has {MAX_XML_ELEMENTS + 1} elements; {MAX_XML_ELEMENTS} are"),
        ("<a>" + "<b/>" * 60_000 + "</a>", "60001 elements"),
        (f"<a b='{'x' * (MAX_XML_CHARACTERS + 1)}'/>", "characters; 262144 are allowed in XML"),
        (f"<a>{'x' * MAX_XML_CHARACTERS}</a>", "characters; 262144 are allowed in XML"),
        ("<a" + " b='1'" * 2 + "/>", "not well-formed XML: Attribute b redefined"),
        ("<a>", "not well-formed XML: "),
        ("<a/><b/>", "not well-formed XML: Extra content"),
        (" ", "not well-formed XML: "),
        ("text", "not well-formed XML: "),
        ("<a>\x00</a>", "not well-formed XML: "),
        ("<a>\ud800</a>", "not well-formed XML: "),
        ("<a xmlns:x='x'><y:b/></a>", "not well-formed XML: "),
        ("<!DOCTYPE \ud800><a/>", "not well-formed XML: "),
    ],
)
def test_a_hostile_or_broken_document_is_refused(payload: str, complaint: str) -> None:
    for _ in range(2):  # what is remembered of it is the refusal
        with pytest.raises(InvalidInput) as error:
            check_payload(published(payload))
        assert complaint in str(error.value)
        assert "\n" not in str(error.value)
    assert document_of(published(payload)) is None


def test_a_notification_has_no_room_for_an_attribute_of_ten_megabytes() -> None:
    with pytest.raises(InvalidInput, match=f"more than {MAX_PAYLOAD} characters"):
        published(f"<a b='{'x' * 10_000_000}'/>")


@pytest.mark.parametrize(
    "payload",
    [
        "<a/>",
        "<?xml version='1.0' encoding='ISO-8859-1'?><a b='ü'/>",
        "<a><!-- <!DOCTYPE a> --></a>",
        "<a><![CDATA[<!DOCTYPE a>]]></a>",
        "<a>" * MAX_XML_DEPTH + "</a>" * MAX_XML_DEPTH,
        "<a>" + "<b></b>" * (MAX_XML_ELEMENTS - 1) + "</a>",
        "<x:a xmlns:x='urn:x'>&lt;&#252;</x:a>",
    ],
)
def test_a_good_document_is_taken(payload: str) -> None:
    check_payload(published(payload))
    assert document_of(published(payload)) is not None


def test_a_document_is_parsed_once_and_as_what_it_was_decoded_to() -> None:
    payload = "<?xml version='1.0' encoding='ISO-8859-1'?><a b='ü'/>"
    assert parse_xml(payload) is document_of(published(payload))
    assert parse_xml(payload).root.get("b") == "ü"


def test_json_is_no_document() -> None:
    assert document_of(Notification(id="n", publisher="p", payload="<a/>")) is None
    assert document_of(Notification(id="n", publisher="p", media_type="application/xml")) is None
