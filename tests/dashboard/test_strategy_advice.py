"""Which strategy is recommended, and in which words."""

from __future__ import annotations

from hanse.dashboard.advice import NEEDS, Wishes, advise
from hanse.routing import STRATEGIES
from hanse.simulation.run import Distribution, Result


def result(
    name: str, messages: int, *, ms: float = 10.0, held: float = 50.0, brokers: float = 2.0, deliveries: int = 100
) -> Result:
    def all_(value: float) -> Distribution:
        return Distribution(10, value, 0.0, value, value, value, value)

    return Result(
        strategy=name,
        nodes=5,
        requests={"Publish": 200},
        messages={"Event": messages // 2, "PutSubscription": messages - messages // 2},
        messages_by_link=[],
        deliveries=deliveries,
        latency_ms=all_(ms),
        subscription_delay_ms=all_(1.0),
        table_size=all_(held),
        brokers_per_publication=all_(brokers),
        rejected=0,
        ended_at_ms=1000,
    )


def test_the_fewest_messages_win_and_the_reasons_say_against_whom() -> None:
    advice = advise([result("flood-events", 4000), result("dht", 400, ms=80), result("scoped", 1000)], Wishes())
    assert advice.strategy == "dht"
    assert advice.reasons[0] == "It needs 400 messages between brokers for 200 actions of clients and 100 deliveries."
    assert "That is 10.0 times fewer than flood-events, which needs 4,000." in advice.reasons
    assert "Most is saved on subscriptions: 200 messages instead of 2,000." in advice.reasons
    assert NEEDS["dht"] in advice.reasons
    assert [(one.strategy, one.says) for one in advice.others] == [
        ("scoped", "2.5 times as many messages, 70 ms faster on average"),
        ("flood-events", "10.0 times as many messages, 70 ms faster on average"),
    ]


def test_a_bound_of_latency_rules_out_the_cheapest() -> None:
    advice = advise([result("dht", 400, ms=80), result("scoped", 1000)], Wishes(latency_p95_ms=50))
    assert advice.strategy == "scoped"
    assert any("within the 50 ms that you ask for" in reason for reason in advice.reasons)
    assert [(one.strategy, one.says) for one in advice.others] == [
        ("dht", "too slow: 5 of 100 notifications take longer than 80 ms")
    ]


def test_of_two_that_cost_about_the_same_the_faster_one_is_taken() -> None:
    advice = advise([result("dht", 1000, ms=80), result("scoped", 1050)], Wishes())
    assert advice.strategy == "scoped"
    assert advice.others[0].says == "about as many messages (1,000), 70 ms slower on average"


def test_every_wish_counts() -> None:
    found = [result("dht", 100, held=900), result("scoped", 200, brokers=9), result("flood-events", 900)]
    advice = advise(found, Wishes(table_size=100, brokers_each=5))
    assert advice.strategy == "flood-events"
    assert {one.strategy: one.says for one in advice.others} == {
        "dht": "tables too large: a broker holds 900 subscriptions on average",
        "scoped": "seen by too many: 9.0 brokers handle a notification",
    }


def test_one_that_delivers_less_is_never_taken() -> None:
    advice = advise([result("dht", 100, deliveries=90), result("scoped", 200)], Wishes())
    assert advice.strategy == "scoped"
    assert advice.others[0].says.startswith("10 fewer deliveries than another")


def test_where_none_will_do_each_is_told_why() -> None:
    advice = advise([result("dht", 100), result("scoped", 200)], Wishes(latency_p95_ms=1))
    assert advice.strategy == ""
    assert advice.headline.startswith("None of these keeps all that you ask for")
    assert len(advice.others) == 2


def test_nothing_to_compare() -> None:
    assert advise([], Wishes()).headline == "Run at least two strategies, and they are compared here."
    alone = advise([result("dht", 100)], Wishes())
    assert alone.strategy == "dht"
    assert alone.others == []


def test_every_strategy_says_what_it_lives_from() -> None:
    assert set(NEEDS) == set(STRATEGIES)
