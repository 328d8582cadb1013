"""Guarantees travel with offers: who asks for a quality that a provider cannot have does not ask there, and misses nothing."""

from __future__ import annotations

from hanse.model import Advertisement, Notification, Selector, Subscription
from hanse.routing import Broker, Federation, Node, Settings
from hanse.routing import messages as m
from hanse.routing.federation import both_ways
from hanse.routing.settings import GUARANTEES_MAX, OFFER_IDLE_MS
from hanse.routing.strategies.advertised import Advertised

OF_T = (Selector(type="T"),)


class Net:
    """Brokers in a chain, a to c, whose messages arrive at once: what is published at a is wanted at c."""

    def __init__(self) -> None:
        whole = Federation(tuple(Node(name) for name in "abc"), both_ways([("a", "b"), ("b", "c")]))
        self.brokers = {node: Broker(node, Settings("advertised", whole)) for node in whole.ids}
        self.got: list[str] = []
        self.now_ms = 1_000
        self.tell("a", m.Attach("producer"))
        self.tell("c", m.Attach("consumer"))

    def tell(self, node: str, message: m.Message) -> None:
        self.now_ms += 1
        waiting: list[tuple[str, str, m.Message]] = [("", node, message)]
        while waiting:
            sender, here, one = waiting.pop(0)
            for effect in self.brokers[here].handle(one, sender, self.now_ms):
                if isinstance(effect, m.Send):
                    waiting += [(here, there, effect.message) for there in effect.to]
                elif isinstance(effect, m.Deliver):
                    self.got.append(effect.notification.id)

    def advertise(self, id_: str, quality: str = "") -> None:
        self.tell("a", m.Advertise(Advertisement(id=id_, client="producer", selectors=OF_T, quality=quality)))

    def withdraw(self, id_: str) -> None:
        self.tell("a", m.Unadvertise("producer", id_))

    def subscribe(self, quality: str) -> None:
        self.tell("c", m.Subscribe(Subscription(id="s", client="consumer", selectors=OF_T, quality=quality)))

    def publish(self, id_: str, precision: float, advertisement: str | None = None) -> None:
        told = Notification(
            id=id_, publisher="producer", types=("T",), quality={"precision": precision}, advertisement=advertisement
        )
        self.tell("a", m.Publish(told))

    @property
    def is_asked(self) -> bool:
        """Whether the provider holds the consumer's subscription."""
        return any(held.home == "c" for held in self.brokers["a"].held.values())


def test_a_provider_that_cannot_meet_a_requirement_is_not_asked() -> None:
    net = Net()
    net.advertise("fine", "precision>=60")
    net.subscribe("precision<40")
    assert not net.is_asked
    net.subscribe("precision>=50")
    assert net.is_asked
    net.publish("1", 70, "fine")
    assert net.got == ["1"]


def test_an_advertisement_that_comes_later_asks_those_who_wait() -> None:
    net = Net()
    net.advertise("fine", "precision>=60")
    net.subscribe("precision<40")
    net.advertise("coarse", "precision<=30")
    assert net.is_asked
    net.publish("1", 20, "coarse")
    net.publish("2", 80, "fine")
    assert net.got == ["1"]
    net.withdraw("coarse")
    assert not net.is_asked
    net.advertise("any")
    assert net.is_asked


def test_what_names_no_advertisement_keeps_to_no_guarantee() -> None:
    net = Net()
    net.advertise("fine", "precision>=60")
    net.subscribe("precision<40")
    net.publish("1", 10)
    assert net.is_asked
    assert net.got == ["1"]


def test_what_is_published_without_an_advertisement_again_and_again_stays_offered() -> None:
    net = Net()
    net.advertise("fine", "precision>=60")
    net.subscribe("precision<40")
    for _ in range(2):
        net.publish(str(net.now_ms), 10)
        net.now_ms += OFFER_IDLE_MS - 100
        net.tell("a", m.Tick())
        assert net.is_asked
    net.now_ms += 200
    net.tell("a", m.Tick())
    assert not net.is_asked


def test_what_is_of_two_types_may_have_the_quality_of_another_advertisement() -> None:
    """It is offered by both types; the guarantee of the type that its advertisement does not name says nothing of it."""
    net = Net()
    net.advertise("coarse", "precision<=30")  # of T
    other = Advertisement(id="fine", client="producer", selectors=(Selector(type="U"),), quality="precision>=60")
    net.tell("a", m.Advertise(other))
    net.subscribe("precision>=50")
    assert not net.is_asked
    both = Notification(id="1", publisher="producer", types=("T", "U"), quality={"precision": 80}, advertisement="fine")
    net.tell("a", m.Publish(both))
    assert net.got == ["1"]


def test_what_was_published_before_the_news_arrived_is_not_lost() -> None:
    """The home asks only once it hears of the wider guarantee; what the provider has published by then waits for it."""
    net = Net()
    net.advertise("fine", "precision>=60")
    net.subscribe("precision<40")
    wider = Advertisement(id="coarse", client="producer", selectors=OF_T, quality="precision<=30")
    net.brokers["a"].handle(m.Advertise(wider), "", net.now_ms)  # and nobody is told
    net.publish("1", 20, "coarse")
    assert net.got == []
    _compare(net)
    assert net.got == ["1"]


def _compare(net: Net) -> None:
    """Digests find what others have not been told."""
    for node in "abc":
        net.tell(node, m.Resync())


def test_many_different_guarantees_count_as_none() -> None:
    net = Net()
    net.subscribe("precision<40")
    for i in range(GUARANTEES_MAX):
        net.advertise(str(i), f"precision>={50 + i}")
    assert not net.is_asked
    net.advertise("one more", "precision>=99")
    assert net.is_asked


def test_a_provider_that_starts_again_offers_the_same() -> None:
    net = Net()
    net.advertise("fine", "precision>=60")
    provider = net.brokers["a"]
    net.brokers["a"] = Broker.restore("a", provider.settings, provider.dump())
    net.subscribe("precision<40")
    _compare(net)
    assert not net.is_asked
    strategy = net.brokers["c"].strategy
    assert isinstance(strategy, Advertised)
    assert strategy.guarantees(OF_T) == {"a": [(m.Offer("T"), ("precision>=60",))]}
