"""What a broker promises its clients and its host, whatever the strategy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from hanse.model import Advertisement, Circle, InvalidInput, Location, Notification, Selector, Subscription
from hanse.routing import STRATEGIES, Broker, ExportRule, Federation, Group, Link, Node, Settings, both_ways
from hanse.routing import messages as m
from hanse.routing.settings import DELIVERED_KEPT
from hanse.scopes import Scopes

LINE = ["a", "b", "c", "d"]


def federation(*, cloud: bool = False) -> Federation:
    nodes = [Node(name, Location(0.0, 20.0 * i)) for i, name in enumerate(LINE)]
    pairs = list(pairwise(LINE))
    if cloud:
        nodes.append(Node("cloud", Location(0.0, 90.0)))
        pairs.append(("d", "cloud"))
    return Federation(tuple(nodes), both_ways(pairs))


class Town:
    """Brokers in a line, and everything that they want done, done at once."""

    def __init__(self, strategy: str = "flood-events", scopes: Scopes | None = None, **options: Any) -> None:
        if strategy == "broadcast-groups":
            options = {"groups": (Group("a", ("b",)), Group("c", ("d",))), **options}
        given = options.pop("federation", None) or federation(cloud=strategy == "broadcast-groups")
        self.settings = Settings(strategy, given, **options)
        snapshot = (scopes or Scopes()).to_struct()
        self.brokers = {node: Broker(node, self.settings, Scopes.from_struct(snapshot)) for node in given.ids}
        self.effects: list[m.Effect] = []
        self.crossed: list[tuple[str, str, Any]] = []
        self.store: dict[str, tuple[Notification, ...]] = {}
        self.now = 1000

    def tell(self, node: str, message: Any, sender: str = "") -> None:
        queue = [(node, message, sender)]
        while queue:
            here, what, source = queue.pop(0)
            for effect in self.brokers[here].handle(what, source, self.now):
                if isinstance(effect, m.Send):
                    for target in effect.to:
                        assert target in self.settings.federation.neighbours[here]
                        self.crossed.append((here, target, m.innermost(effect.message)))
                        queue.append((target, effect.message, here))
                elif isinstance(effect, m.Lookup):
                    queue.append((here, m.Answer(effect.query.id, effect.asker, self.store.get(here, ())), ""))
                else:
                    self.effects.append(effect)

    def of(self, kind: type) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def delivered(self) -> list[tuple[str, str]]:
        return [(effect.client, effect.notification.id) for effect in self.of(m.Deliver)]


def subscription(id_: str = "s", client: str = "sub", **members: Any) -> m.Subscribe:
    return m.Subscribe(Subscription(id=id_, client=client, **members))


def publication(id_: str = "n", client: str = "pub", **members: Any) -> m.Publish:
    return m.Publish(Notification(id=id_, publisher=client, **members))


def test_handling_is_all_that_a_broker_does() -> None:
    """The same messages give the same effects: nothing else flows in."""
    town, twin = Town("scoped"), Town("scoped")
    for t in (town, twin):
        t.tell("a", subscription())
        t.tell("d", publication())
    assert town.effects == twin.effects
    assert town.brokers["a"].dump() == twin.brokers["a"].dump()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_broker_comes_back_as_it_was_stored(strategy: str) -> None:
    town = Town(strategy)
    town.tell("a", m.Attach("sub", Location(0.0, 1.0)))
    town.tell("d", m.Attach("pub", Location(0.0, 61.0)))
    town.tell("a", subscription(selectors=(Selector(type="Bus"),), q="speed>50"))
    town.tell("d", m.Advertise(Advertisement(id="ad", client="pub", selectors=(Selector(type="Bus"),))))
    for node in town.brokers:
        dumped = town.brokers[node].dump()
        town.brokers[node] = Broker.restore(node, town.settings, dumped)
        assert town.brokers[node].dump() == dumped
    town.tell("d", publication(types=("Bus",), attributes={"speed": 60}, advertisement="ad", geofence=Circle(0.0, 0.0, 5.0)))
    assert town.delivered() == [("sub", "n")]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (subscription(q="speed>"), "column"),
        (subscription(xpath=("//a", "//a[")), "the XPath constraint '//a[': column 5"),
        (subscription(scopes={"area": "mars"}), "no scope 'mars'"),
        (m.Unsubscribe("sub", "none"), "no subscription 'none'"),
        (m.Unadvertise("pub", "none"), "no advertisement 'none'"),
        (publication(advertisement="none"), "no active advertisement 'none'"),
        (publication(scopes={"area": "mars"}), "no scope 'mars'"),
        (m.Advertise(Advertisement(id="a", client="pub", q="((")), "column"),
        (m.Advertise(Advertisement(id="a", client="pub", xpath=("a",))), "begins with / or //"),
        (m.SetVisibility("area", "x", "y", "", ""), "no dimension 'area'"),
        (m.JoinScope("area", "mars"), "no scope 'mars'"),
        (m.Attach("c", previous="nowhere"), "no node of the federation"),
        (m.Advertise(Advertisement(id="a", client="pub", selectors=(Selector(id_pattern="("),))), "id_pattern"),
        (m.Query("q", "c", (Selector(id_pattern="("),)), "id_pattern"),
        (m.Query("q", "c", (), "temp>"), "column"),
        (publication(payload="{"), "not JSON"),
        (publication(payload="<a>", media_type="application/xml"), "not well-formed XML"),
        (publication(payload="<!DOCTYPE a><a/>", media_type="application/xml"), "document type"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason_and_changes_nothing(request_: m.Request, reason: str) -> None:
    town = Town("scoped")
    before = town.brokers["a"].dump()
    town.tell("a", request_)
    assert reason in town.of(m.Reject)[0].reason
    after = msgspec.msgpack.decode(town.brokers["a"].dump())
    for clients in (after["state"]["clients"].values(),):  # at most the client itself is new
        assert all(not c["subscriptions"] and not c["advertisements"] for c in clients)
    assert msgspec.msgpack.decode(before)["state"]["held"] == after["state"]["held"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_xml_is_filtered_by_its_subscribers_and_its_advertisement(strategy: str) -> None:
    town = Town(strategy)
    town.tell("a", subscription(selectors=(Selector(type="Bus"),), xpath=("//line[. > 5]", "/bus[not(@late)]")))
    town.tell("d", m.Advertise(Advertisement(id="ad", client="pub", selectors=(Selector(type="Bus"),), xpath=("/bus/line",))))
    payloads = (
        "<bus><line>7</line></bus>",
        "<bus><line>4</line></bus>",
        "<bus late='1'><line>7</line></bus>",
        "<tram>7</tram>",
        "",
    )
    for number, payload in enumerate(payloads):
        xml = {"payload": payload, "media_type": "application/xml"}
        town.tell("d", publication(f"n{number}", types=("Bus",), advertisement="ad", **xml))
    assert town.delivered() == [("sub", "n0")]
    assert [(effect.request, effect.reason) for effect in town.of(m.Reject)] == [
        (id_, "the payload is not what '/bus/line' of advertisement 'ad' says") for id_ in ("n3", "n4")
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ids_are_a_client_s_own(strategy: str) -> None:
    town = Town(strategy)
    town.tell("a", subscription("s", "one", selectors=(Selector(type="Bus"),)))
    town.tell("d", subscription("s", "two", selectors=(Selector(type="Bus"),)))
    town.tell("b", publication("n", "pub", types=("Bus",)))
    town.tell("c", publication("n", "other", types=("Bus",)))
    town.tell("c", publication("n", "other", types=("Bus",)))  # the same thing said again
    got = sorted((effect.client, effect.subscription, effect.notification.publisher) for effect in town.of(m.Deliver))
    assert got == [("one", "s", "other"), ("one", "s", "pub"), ("two", "s", "other"), ("two", "s", "pub")]
    town.tell("d", m.Unsubscribe("two", "s"))
    town.tell("b", publication("later", types=("Bus",)))
    assert [effect.client for effect in town.of(m.Deliver)][4:] == ["one"]


def test_a_notification_below_its_guarantee_stays_at_home_and_the_producer_is_told() -> None:
    town = Town()
    town.tell("a", subscription())
    town.tell("d", m.Advertise(Advertisement(id="ad", client="pub", quality="precision>=4")))
    town.tell("d", publication("bad", quality={"precision": 3.0}, advertisement="ad"))
    town.tell("d", publication("none", advertisement="ad"))
    town.tell("d", publication("good", quality={"precision": 4.0}, advertisement="ad"))
    assert town.delivered() == [("sub", "good")]
    assert [(r.client, r.request) for r in town.of(m.Reject)] == [("pub", "bad"), ("pub", "none")]
    bad, none = town.of(m.Reject)
    assert (bad.below, none.below) == ("ad", "ad")
    assert bad.reason.endswith("guarantee of advertisement 'ad': precision is 3, and precision>=4 is guaranteed")
    assert none.reason.endswith("precision is missing, and precision>=4 is guaranteed")


def test_where_advertisements_are_required_nothing_goes_without() -> None:
    town = Town(require_advertisements=True)
    town.tell("a", subscription())
    town.tell("d", publication())
    assert not town.delivered()
    assert "must name its advertisement" in town.of(m.Reject)[0].reason


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_expires_is_over_everywhere(strategy: str) -> None:
    town = Town(strategy)
    town.tell("a", subscription(expires_at_ms=2000, selectors=(Selector(type="Bus"),)))
    town.tell("d", publication("early", types=("Bus",)))
    town.now = 2000
    town.tell("d", publication("late", types=("Bus",)))
    for node in town.brokers:
        town.tell(node, m.Tick())
    assert town.delivered() == [("sub", "early")]
    assert [len(broker.held) for broker in town.brokers.values()] == [0] * len(town.brokers)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_client_that_detaches_leaves_nothing_behind(strategy: str) -> None:
    town = Town(strategy)
    town.tell("a", m.Attach("sub", Location(0.0, 45.0)))
    town.tell("a", subscription())
    town.tell("a", m.Advertise(Advertisement(id="ad", client="sub", selectors=(Selector(type="Bus"),))))
    town.tell("a", m.Disconnect("sub"))
    town.tell("d", publication())
    town.tell("a", m.Detach("sub"))
    assert [effect.notification.id for effect in town.of(m.Dropped)] == ["n"]
    assert all(not broker.held and "sub" not in broker.clients for broker in town.brokers.values())
    town.tell("d", publication("later"))
    assert not town.delivered()


def test_what_comes_while_a_client_is_away_waits_for_it() -> None:
    town = Town()
    town.tell("a", subscription())
    town.tell("a", m.Disconnect("sub"))
    town.tell("d", publication("one"))
    town.tell("d", publication("two"))
    assert not town.delivered()
    town.tell("a", m.Attach("sub"))
    assert town.delivered() == [("sub", "one"), ("sub", "two")]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_client_takes_along_what_is_its_own(strategy: str) -> None:
    town = Town(strategy)
    town.tell("a", m.Attach("sub", Location(0.0, 0.0)))
    town.tell("a", subscription(selectors=(Selector(type="Bus"),)))
    town.tell("a", m.Disconnect("sub"))
    town.tell("b", publication("while away", types=("Bus",)))
    town.tell("d", m.Attach("sub", Location(0.0, 60.0), previous="a"))
    town.tell("b", publication("after", types=("Bus",), geofence=Circle(0.0, 60.0, 3.0)))
    town.tell("b", publication("elsewhere", types=("Bus",), geofence=Circle(0.0, 0.0, 3.0)))
    town.now += 120_000
    for node in town.brokers:
        town.tell(node, m.Tick())
    town.tell("b", publication("much later", types=("Bus",)))
    assert town.delivered() == [("sub", "while away"), ("sub", "after"), ("sub", "much later")]
    assert "sub" not in town.brokers["a"].clients


def test_a_subscription_that_ends_while_something_waits_for_it() -> None:
    town = Town()
    town.tell("a", subscription(expires_at_ms=2000))
    town.tell("a", m.Disconnect("sub"))
    town.tell("b", publication())
    town.now = 3000
    town.tell("a", m.Tick())
    assert [effect.reason for effect in town.of(m.Dropped)] == ["the subscription has ended"]
    town.tell("d", m.Attach("sub", previous="a"))
    assert not town.delivered()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nobody_gets_what_was_published_before_they_asked(strategy: str) -> None:
    town = Town(strategy)
    town.tell("d", m.Advertise(Advertisement(id="ad", client="pub", selectors=(Selector(type="Bus"),))))
    town.tell("d", publication("early", types=("Bus",), advertisement="ad"))
    town.now += 5000
    town.tell("a", subscription(selectors=(Selector(type="Bus"),)))
    town.tell("b", m.Attach("sub", previous="a"))
    town.tell("d", m.Unadvertise("pub", "ad"))
    town.tell("d", m.Advertise(Advertisement(id="ad", client="pub", selectors=(Selector(type="Bus"),))))
    assert not town.delivered()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("flood", [False, True])
def test_a_notification_says_where_its_publisher_was(strategy: str, flood: bool) -> None:
    town = Town(strategy, flood_locations=flood)
    town.tell("d", m.Attach("pub", Location(0.0, 60.0)))
    town.tell("a", subscription(geofence=Circle(0.0, 0.0, 5.0)))
    town.tell("d", publication("there", location=Location(0.0, 1.0)))
    town.tell("d", publication("here"))
    assert town.delivered() == [("sub", "there")]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_place_is_forgotten_with_its_client(strategy: str) -> None:
    town = Town(strategy)
    town.tell("a", m.Attach("sub", Location(0.0, 0.0)))
    town.tell("a", subscription(selectors=(Selector(type="Bus"),)))
    town.tell("a", m.Detach("sub"))
    town.tell("b", m.Attach("sub"))
    town.tell("b", subscription("s2", selectors=(Selector(type="Bus"),)))
    town.tell("d", publication(types=("Bus",), geofence=Circle(0.0, 0.0, 5.0)))
    assert not town.delivered()
    town.tell("b", m.Detach("sub"))
    town.now += 10**7
    for node in town.brokers:
        town.tell(node, m.Tick())
    assert [broker.state.locations for broker in town.brokers.values()] == [{}] * len(town.brokers)


def test_a_place_of_an_earlier_life_that_comes_late_does_not_count() -> None:
    town = Town()
    town.tell("b", m.Attach("sub"))
    town.brokers["b"].handle(m.ClientLocation("sub", Location(1.0, 1.0), 5, "a"), "a", 10)
    assert "sub" not in town.brokers["b"].state.locations
    town.brokers["b"].handle(m.ClientLocation("other", Location(1.0, 1.0), 5, "a"), "a", 10)
    assert "other" in town.brokers["b"].state.locations


def test_export_rules_hold_for_what_follows_a_client() -> None:
    closed = ExportRule(deny_types=("Secret",))
    nodes = tuple(Node(name) for name in "abc")
    links = (Link("a", "b", closed), Link("b", "a"), Link("b", "c"), Link("c", "b"))
    town = Town(federation=Federation(nodes, links))
    town.tell("a", subscription(selectors=(Selector(type="Secret"), Selector(type="Bus"))))
    town.tell("a", m.Disconnect("sub"))
    town.tell("a", publication("secret", types=("Secret",)))
    town.tell("a", publication("bus", types=("Bus",)))
    town.tell("c", m.Attach("sub", previous="a"))
    assert town.delivered() == [("sub", "bus")]
    assert [effect.notification.id for effect in town.of(m.Dropped)] == ["secret"]
    assert "secret" not in repr([message for source, _, message in town.crossed if source == "a"])


def test_both_ways_across_a_border_are_decided_one_by_one() -> None:
    scopes = Scopes()
    scopes.graph("area").add("x")
    scopes.graph("area").add("y", "x")
    town = Town("scoped", scopes)
    first = town.brokers["a"].handle(m.SetVisibility("area", "y", "x", out="temp>1"), "", 1000)
    second = town.brokers["d"].handle(m.SetVisibility("area", "y", "x", into="temp>2"), "", 1000)
    for node, effects in (("a", first), ("d", second)):
        for effect in effects:
            assert isinstance(effect, m.Send)
            for target in effect.to:
                town.tell(target, effect.message, node)
    assert len({broker.scopes.digest() for broker in town.brokers.values()}) == 1
    edge = town.brokers["b"].scopes.graphs["area"].edge("y", "x")
    assert edge is not None
    assert (edge.out, edge.into) == ("temp>1", "temp>2")


def test_once_is_once_however_many_subscribe() -> None:
    town = Town("grid-quorum")
    count = DELIVERED_KEPT * 2
    broker = town.brokers["d"]
    for i in range(count):
        broker.handle(subscription(f"s{i}"), "", 1000)
    event = m.Event(Notification(id="n", publisher="pub"), "a")
    assert len(broker.handle(event, "c", 1000)) == count
    assert not broker.handle(m.Delivery(event.notification, tuple(broker.held), "a"), "b", 1000)


def test_a_client_that_runs_in_circles_leaves_no_trace() -> None:
    town = Town()
    town.tell("a", m.Attach("c", turn=1))
    requests = {}
    for turn, (node, previous) in enumerate((("b", "a"), ("c", "b"), ("a", "c"), ("b", "a")), start=2):
        requests[turn] = (node, town.brokers[node].handle(m.Attach("c", None, previous, turn), "", 1000))
    for node, effects in requests.values():
        for effect in effects:
            assert isinstance(effect, m.Send)
            for target in effect.to:
                town.tell(target, effect.message, node)
    assert all(not broker.state.arriving for broker in town.brokers.values())
    town.tell("b", subscription(client="c"))
    town.tell("d", publication())
    assert town.delivered() == [("c", "n")]


def test_clocks_that_are_behind_do_no_harm() -> None:
    town = Town("dht")
    town.now = 5000
    town.tell("a", subscription(selectors=(Selector(type="Bus"),)))
    town.tell("a", m.Detach("sub"))
    town.now = 100  # the next node's clock is far behind
    town.tell("c", subscription(selectors=(Selector(type="Bus"),)))
    town.tell("d", publication(types=("Bus",)))
    assert town.delivered() == [("sub", "n")]


def test_a_turn_by_a_clock_that_is_behind_still_counts() -> None:
    town = Town()
    town.now = 5000
    town.tell("a", m.Attach("sub"))
    town.tell("a", subscription())
    town.now = 100
    town.tell("c", m.Attach("sub", previous="a"))
    town.tell("d", publication())
    assert town.delivered() == [("sub", "n")]
    assert "sub" in town.brokers["c"].clients
    assert "sub" not in town.brokers["a"].clients


def test_time_is_the_home_s_own() -> None:
    town = Town()
    town.tell("a", subscription(expires_at_ms=500))
    town.tell("b", publication(published_at_ms=1))
    assert not town.delivered()


def test_queries_end_when_time_is_up_or_the_client_goes() -> None:
    town = Town("flood-events")
    town.brokers["a"].handle(m.Query("q1", "one"), "", 1000)
    town.brokers["a"].handle(m.Query("q2", "two"), "", 1000)
    town.brokers["a"].handle(m.Attach("two"), "", 1000)
    town.tell("a", m.Detach("two"))
    town.now = 10**6
    town.tell("a", m.Tick())
    (reply,) = town.of(m.Reply)
    assert (reply.query, reply.silent) == ("q1", ("a", "b", "c", "d"))


def test_the_cloud_serves_no_clients() -> None:
    town = Town("broadcast-groups")
    town.tell("cloud", subscription())
    assert "serves no clients" in town.of(m.Reject)[0].reason


def test_nothing_crosses_a_link_that_forbids_it() -> None:
    open_, closed = ExportRule(), ExportRule(deny_types=("Secret",))
    nodes = tuple(Node(name, Location(0.0, 10.0 * i)) for i, name in enumerate("abc"))
    links = (Link("a", "b", closed), Link("b", "a"), Link("a", "c", open_), Link("c", "a"), Link("c", "b", open_), Link("b", "c"))
    for strategy in STRATEGIES:
        if strategy == "broadcast-groups":
            continue
        town = Town(strategy, federation=Federation(nodes, links))
        town.tell("b", subscription(selectors=(Selector(type="Secret"),)))
        town.tell("a", m.Advertise(Advertisement(id="ad", client="pub", selectors=(Selector(type="Secret"),))))
        town.tell("a", publication(types=("Secret",)))
        assert town.delivered() == [("sub", "n")], strategy  # by way of c
        for source, target, message in town.crossed:
            if hasattr(message, "notification"):
                assert (source, target) != ("a", "b"), strategy


@pytest.mark.parametrize("advertise_ids", [False, True])
def test_subscriptions_and_queries_go_straight_to_providers(advertise_ids: bool) -> None:
    town = Town("advertised", advertise_ids=advertise_ids)
    town.tell("d", publication("first", types=("Bus",), entity="urn:bus:1"))
    town.crossed.clear()
    town.tell("a", subscription(selectors=(Selector(type="Bus"),)))
    town.tell("a", subscription("other", selectors=(Selector(type="Ship"),)))
    put = [(a, b) for a, b, message in town.crossed if isinstance(message, m.PutSubscription)]
    assert put == [("a", "b"), ("b", "c"), ("c", "d")]  # one way, once
    town.store = {"d": (Notification(id="state", publisher="pub", types=("Bus",), entity="urn:bus:1"),)}
    town.tell("a", m.Query("q1", "sub", (Selector(type="Bus"),)))
    town.tell("a", m.Query("q2", "sub", (Selector(type="Ship"),)))
    replies = {reply.query: [e.entity for e in reply.entities] for reply in town.of(m.Reply)}
    assert replies == {"q1": ["urn:bus:1"], "q2": []}


def test_queries_without_offers_ask_everyone_and_export_rules_hold() -> None:
    closed = ExportRule(ids=("urn:public:*",))
    nodes = tuple(Node(name) for name in "ab")
    town = Town("flood-events", federation=Federation(nodes, (Link("a", "b", closed), Link("b", "a"))))
    entities = [Notification(id=f"state {i}", publisher="p", types=("Bus",), entity=i) for i in ("urn:public:1", "urn:private:1")]
    town.store = {"a": tuple(entities)}
    town.tell("b", m.Query("q", "sub"))
    (reply,) = town.of(m.Reply)
    assert [e.entity for e in reply.entities] == ["urn:public:1"]


def test_an_unknown_node_or_strategy_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no node of the federation"):
        Broker("x", Settings("flood-events", federation()))
    with pytest.raises(InvalidInput, match="no strategy 'magic'"):
        Broker("a", Settings("magic", federation()))
    with pytest.raises(InvalidInput, match="need a node for the cloud"):
        Settings("broadcast-groups", federation())
    with pytest.raises(InvalidInput, match="not connected"):
        Settings("flood-events", Federation((Node("a"), Node("b"))))


@pytest.mark.parametrize(
    ("nodes", "links", "complaint"),
    [
        (("a", "a"), (), "same id"),
        (("a",), (("a", "x"),), "no node"),
        (("a", "b"), (("a", "b"), ("a", "b")), "twice"),
        (("a", "b"), (("a", "b"),), "no way back"),
        (("a",), (("a", "a"),), "to itself"),
    ],
)
def test_an_impossible_federation_is_refused(nodes: tuple[str, ...], links: tuple[tuple[str, str], ...], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Federation(tuple(Node(name) for name in nodes), tuple(Link(a, b) for a, b in links))


def test_every_message_survives_the_wire() -> None:
    """What a scenario sends between brokers is the same after encoding and decoding."""
    from hanse.simulation.faults import FaultyFederation
    from hanse.simulation.scenarios import scenario

    decoder = msgspec.msgpack.Decoder(m.BrokerMessage)
    kinds = set()
    for strategy in STRATEGIES:
        for seed in range(4):
            run = FaultyFederation(scenario(seed, strategy))
            run.run()
            for sent in run.sent:
                assert decoder.decode(msgspec.msgpack.encode(sent.message)) == sent.message
                kinds.add(type(m.innermost(sent.message)).__name__)
    assert {"Event", "Delivery", "PutSubscription", "JoinArea", "PutAdvertisement", "Handover", "RestrictedEvent"} <= kinds
