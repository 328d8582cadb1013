"""Certificates: who is believed, and who is not; what is enciphered, and for whom."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hanse.model import InvalidInput, Location
from hanse.node.federation.identity import Identity, NotBelieved, Seal, make_community, make_node
from hanse.node.federation.knowledge import Knowledge
from hanse.node.federation.wire import Record, Signed, Terms, encode
from hanse.routing import ExportRule

TERMS = Terms("port", "advertised")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    trusted = [make_community(name, folder) for name in ("harbour", "bus")]
    (folder / "trust.pem").write_bytes(b"".join(path.read_bytes() for path in trusted))
    for node, community in (("a", "harbour"), ("b", "harbour"), ("c", "bus")):
        make_node(node, community, folder)
    other = folder / "other"
    make_community("harbour", other)  # the same name, another key
    make_node("b", "harbour", other)
    return folder


def identity(folder: Path, node: str, where: str = "") -> Identity:
    place = folder / where if where else folder
    return Identity(place / f"{node}.pem", place / f"{node}.key", folder / "trust.pem")


def knowledge(folder: Path, node: str) -> Knowledge:
    return Knowledge(node, TERMS, identity(folder, node))


def record(folder: Path, node: str, community: str, version: int = 1, **more: object) -> Record:
    pem = (folder / f"{node}.pem").read_bytes()
    return Record(node=node, terms=TERMS, version=version, community=community, certificate=pem, **more)  # type: ignore[arg-type]


def test_a_node_speaks_for_itself(folder: Path) -> None:
    signed = knowledge(folder, "b").sign(record(folder, "b", "harbour", location=Location(1.0, 2.0)))
    here = knowledge(folder, "a")
    taken = here.take(signed, 10)
    assert taken is not None
    assert taken.location == Location(1.0, 2.0)
    assert here.take(signed, 10) is None  # no news


def test_a_community_that_is_not_trusted_is_not_believed(folder: Path) -> None:
    pem = (folder / "other" / "b.pem").read_bytes()
    with pytest.raises(NotBelieved, match="no trusted community"):
        identity(folder, "a").believe(pem)
    with pytest.raises(InvalidInput, match="no trusted community"):
        identity(folder, "b", "other")


def test_no_node_speaks_in_anothers_name(folder: Path) -> None:
    here = knowledge(folder, "a")
    liar = knowledge(folder, "c")
    with pytest.raises(NotBelieved, match="the certificate of 'c'"):
        here.take(
            liar.sign(Record(node="b", terms=TERMS, version=1, community="bus", certificate=(folder / "c.pem").read_bytes())), 10
        )
    with pytest.raises(NotBelieved, match="the certificate of 'c' of 'bus'"):
        here.take(liar.sign(record(folder, "c", "harbour")), 10)
    with pytest.raises(NotBelieved, match="the signature"):
        here.take(liar.sign(record(folder, "b", "harbour")), 10)
    assert here.versions() == {}


def test_a_record_is_not_changed_on_its_way(folder: Path) -> None:
    signed = knowledge(folder, "b").sign(record(folder, "b", "harbour"))
    forged = Signed(encode(record(folder, "b", "harbour", version=2, http="http://evil")), signed.signature)
    with pytest.raises(NotBelieved, match="the signature"):
        knowledge(folder, "a").take(forged, 10)


def test_nodes_that_do_not_agree_are_told_so(folder: Path) -> None:
    other = Terms("port", "dht")
    with pytest.raises(NotBelieved, match="strategy is 'dht' there and 'advertised' here"):
        Knowledge("a", TERMS, None).take(Signed(encode(Record(node="b", terms=other, version=1))), 10)


def test_a_record_from_the_future_is_refused() -> None:
    with pytest.raises(NotBelieved, match="set its clock"):
        Knowledge("a", TERMS, None).take(Signed(encode(Record(node="b", terms=TERMS, version=10**15))), 10)


def test_a_link_is_there_when_both_want_it() -> None:
    here = Knowledge("a", TERMS, None)
    rule = ExportRule(types=("Bus",))
    here.take(Signed(encode(Record(node="a", terms=TERMS, version=1, links={"b": rule}))), 10)
    here.take(Signed(encode(Record(node="b", terms=TERMS, version=1))), 10)
    assert here.federation().ids == ("a",)
    here.take(Signed(encode(Record(node="b", terms=TERMS, version=2, links={"a": ExportRule()}))), 10)
    federation = here.federation()
    assert federation.ids == ("a", "b")
    assert federation.rule[("a", "b")] == rule
    here.take(Signed(encode(Record(node="b", terms=TERMS, version=3, links={"a": ExportRule()}, left=True))), 10)
    assert here.federation().ids == ("a",)


def test_what_is_sealed_is_for_one_node_and_from_one(folder: Path) -> None:
    a, b, c = (identity(folder, node) for node in "abc")
    now = time.time_ns()

    def seal(one: Identity, other: Identity) -> Seal:
        return Seal(one.certificate.node, other.certificate.node, one.shared(other.certificate, b"t"), now)

    closed = seal(a, b).close(b"hello")
    assert b"hello" not in closed
    assert seal(b, a).open(closed) == b"hello"
    for wrong in (seal(c, a), seal(a, b), seal(b, c)):
        with pytest.raises(NotBelieved):
            wrong.open(closed)
    with pytest.raises(NotBelieved):
        seal(b, a).open(closed[:-1] + bytes([closed[-1] ^ 1]))
    with pytest.raises(NotBelieved):
        seal(b, a).open(b"short")
    assert seal(a, b).close(b"same") != Seal("a", "b", a.shared(b.certificate, b"t"), now + 1).close(b"same")


def test_a_key_that_does_not_belong_is_told(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="does not belong"):
        Identity(folder / "a.pem", folder / "b.key", folder / "trust.pem")
    with pytest.raises(InvalidInput, match="cannot be read"):
        Identity(folder / "nobody.pem", folder / "b.key", folder / "trust.pem")
    (folder / "rubbish.pem").write_text("rubbish")
    with pytest.raises(InvalidInput, match="no usable certificate"):
        Identity(folder / "rubbish.pem", folder / "b.key", folder / "trust.pem")
