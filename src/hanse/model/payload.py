"""Whether a payload is what its media type says, and safe to hand on; and an XML payload as a tree, parsed once for everybody.

A document with a type of its own (DTD) is refused before a parser sees its declarations, so there are no entities to expand and
nothing to fetch. The bounds on characters, elements and depth are also what keeps any XPath that is allowed quick.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final
from xml.parsers import expat

import msgspec

from hanse.model.errors import InvalidInput
from hanse.model.values import JSON, XML, Notification

if TYPE_CHECKING:
    from lxml import etree

MAX_XML_CHARACTERS: Final = 1 << 18
MAX_XML_ELEMENTS: Final = 10_000
MAX_XML_DEPTH: Final = 32
DOCUMENTS_KEPT: Final = 2  # parsed documents: all who ask about one notification ask the same tree, one after the other


class Document:
    """An XML payload as a tree that nobody changes, with what has been found out about it so far."""

    __slots__ = ("answers", "indicators", "root")

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self.answers: dict[str, bool] = {}  # by XPath
        self.indicators: Any = None  # of quality, once somebody has read them


def check_payload(notification: Notification) -> None:
    """JSON must be JSON; XML must be well-formed, within bounds, and have no document type (and so no entities) of its own."""
    if not notification.payload:
        return
    if notification.media_type == JSON:
        try:
            msgspec.json.decode(notification.payload)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"the payload is not JSON: {error}") from error
        return
    parse_xml(notification.payload)


def parse_xml(text: str) -> Document:
    """The tree of an XML text; the latest are kept. Raises InvalidInput."""
    parsed = _parsed(text)
    if isinstance(parsed, Document):
        return parsed
    raise InvalidInput(parsed)


def document_of(notification: Notification) -> Document | None:
    """The payload as a tree; None if it is no XML, or none that this node would take."""
    if notification.media_type != XML or not notification.payload:
        return None
    parsed = _parsed(notification.payload)
    return parsed if isinstance(parsed, Document) else None


@lru_cache(maxsize=DOCUMENTS_KEPT)
def _parsed(text: str) -> Document | str:
    """The document, or what is wrong with it: kept too, since everybody who asks would find out again."""
    if len(text) > MAX_XML_CHARACTERS:
        return f"the payload has {len(text)} characters; {MAX_XML_CHARACTERS} are allowed in XML"
    if "<!DOCTYPE" in text and (trouble := _document_type_trouble(text)):  # it may stand in a comment
        return trouble
    from lxml import etree

    parser, too_deep, elements = _tools()
    try:
        root = etree.fromstring(text.encode(), parser)
    except UnicodeEncodeError:
        return "the payload is not well-formed XML: it has half of a surrogate pair in it"
    except etree.XMLSyntaxError as error:
        message = " ".join((error.msg or "it is empty").split())
        if message.startswith("Excessive depth"):
            return _TOO_DEEP
        return f"the payload is not well-formed XML: {message}"
    if len(text) > MAX_XML_ELEMENTS * len("<a/>") and (count := int(elements(root))) > MAX_XML_ELEMENTS:
        return f"the payload has {count} elements; {MAX_XML_ELEMENTS} are allowed"
    if too_deep(root):
        return _TOO_DEEP
    return Document(root)


_TOO_DEEP: Final = f"the payload nests its elements more than {MAX_XML_DEPTH} deep; make it flatter"


@cache
def _tools() -> tuple[etree.XMLParser, Any, Any]:
    """A parser that fetches, expands and repairs nothing; whether a tree is too deep; how many elements it has.

    The text has been decoded already, so the encoding that a document declares means nothing any more.
    """
    from lxml import etree

    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        recover=False,
        collect_ids=False,
    )
    too_deep = etree.XPath(f"boolean({'/*' * (MAX_XML_DEPTH + 1)})", regexp=False, smart_strings=False)
    return parser, too_deep, etree.XPath("count(//*)", regexp=False, smart_strings=False)


def _document_type_trouble(text: str) -> str:
    """Asked of expat, which tells of a document type before it reads what that declares."""
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(text, True)
    except InvalidInput as error:
        return error.message
    except (expat.ExpatError, UnicodeEncodeError) as error:
        return f"the payload is not well-formed XML: {error}"
    return ""


def _refuse(*_: object) -> None:
    raise InvalidInput("the payload declares a document type; leave it out")
