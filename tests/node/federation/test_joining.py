"""Links said at run time: which follow from the configuration and what was said, and which addresses are ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.node.federation.description import DescribedLink, DescribedNode, Description, FederationFile, FederationTerms
from hanse.node.federation.joining import Joining, check_address
from hanse.routing import ExportRule

NODES = [DescribedNode(name, listen=f"tcp/127.0.0.1:{port}") for name, port in (("a", 1), ("b", 2), ("c", 3))]
OPEN, SHIPS = ExportRule(), ExportRule(types=("Ship",))


def joining() -> tuple[Joining, Description]:
    file = FederationFile(FederationTerms("t"), NODES, [DescribedLink(("a", "b"))])
    described = Description(file, "a", Path(), [("tcp/127.0.0.1:9", "", SHIPS)])
    return Joining(described), described


def test_what_was_said_counts_for_more_than_the_configuration() -> None:
    joined, described = joining()
    records = described.records()
    assert joined.links(records) == {"b": OPEN}
    assert joined.addresses(records) == ["tcp/127.0.0.1:2", "tcp/127.0.0.1:9"]
    joined.change("b", SHIPS)
    joined.join("tcp/127.0.0.1:3", "", SHIPS)
    assert joined.links(records) == {"b": SHIPS, "c": SHIPS}
    assert joined.addresses(records) == ["tcp/127.0.0.1:2", "tcp/127.0.0.1:9", "tcp/127.0.0.1:3"]
    joined.leave("b", ("tcp/127.0.0.1:2",))
    joined.leave("c", ("tcp/127.0.0.1:3",))
    assert joined.links(records) == {}
    assert joined.addresses(records) == ["tcp/127.0.0.1:9"]
    joined.join("tcp/127.0.0.1:2", "b", OPEN)
    assert joined.links(records) == {"b": OPEN}
    assert joined.addresses(records) == ["tcp/127.0.0.1:2", "tcp/127.0.0.1:9"]


@given(st.text() | st.from_regex(r"(tcp|tls|udp)/[a-z0-9.:\[\]]*:[0-9]*", fullmatch=True), st.booleans())
def test_an_address_is_one_or_is_refused(address: str, is_secure: bool) -> None:
    try:
        check_address(address, is_secure=is_secure)
    except InvalidInput:
        return
    protocol, _, place = address.partition("/")
    assert protocol in ("tcp", "tls")
    assert place.rpartition(":")[2].isdigit()
    assert is_secure or place.startswith(("127.0.0.1:", "localhost:", "[::1]:"))


def test_links_without_certificates_stay_on_the_machine() -> None:
    check_address("tcp/127.0.0.1:7", is_secure=False)
    check_address("tls/port.example:7", is_secure=True)
    with pytest.raises(InvalidInput, match="certificates"):
        check_address("tcp/port.example:7", is_secure=False)
