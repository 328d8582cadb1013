from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import DEFAULT_VOCAB, Change, Entity, now_text
from hanse.ngsild.errors import AlreadyExists, BadRequestData, Conflict, NgsiLdError, ResourceNotFound
from hanse.ngsild.registration_subscriptions import (
    RegistrationSubscription,
    parse_registration_subscription,
    patch_registration_subscription,
)
from hanse.ngsild.registrations import Registration, parse_registration, parse_sought, patch_registration
from hanse.ngsild.subscriptions import Counters
from hanse.node.notifier.notifier import decode_letter
from hanse.node.registrations import Registrations
from hanse.node.router import Alone
from hanse.node.store import Delivery, SaveChange, Store
from hanse.routing import Broker, Federation, Settings
from hanse.routing.federation import Node


class Outbox:
    """A notifier that remembers what it was given."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.counters: dict[str, Counters] = {}
        self.changed: Callable[[str], None] = lambda _: None

    def dispatch(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            self.given.put_nowait(msgspec.json.decode(decode_letter(delivery.payload).body))

    def register(self, id_: str, counters: Counters, changed: Callable[[str], None]) -> None:
        self.counters[id_], self.changed = counters, changed

    def unregister(self, id_: str) -> None:
        del self.counters[id_]

    def discard(self, _id: str) -> list[Any]:
        return []

    def welcome(self, _uri: str) -> None: ...

    def told(self) -> list[tuple[str, list[str]]]:
        """Why, and of which registrations, since it was last asked."""
        found = []
        while not self.given.empty():
            body = self.given.get_nowait()
            found.append((body["triggerReason"], [item["id"] for item in body["data"]]))
        return found


async def resolve(_source: Any) -> Context:
    return CORE


class Here(SimpleNamespace):
    store: Store
    router: Alone
    outbox: Outbox
    registrations: Registrations


def running(work: Callable[[Here], Awaitable[None]], directory: Path | None = None) -> None:
    async def run() -> None:
        outbox = Outbox()
        here = Here(
            name="",
            store=Store.open(directory),
            router=Alone(Broker("hanse", Settings("flood-events", Federation((Node("hanse"),))))),
            notifier=outbox,
            outbox=outbox,
            contexts=SimpleNamespace(resolve=resolve),
        )
        tenant: Any = here
        here.registrations = Registrations(tenant)
        await here.registrations.start()
        try:
            await work(here)
        finally:
            await here.registrations.stop()
            await here.store.close()

    asyncio.run(run())


def registration(number: int = 1, kind: str = "Building", **members: Any) -> Registration:
    body = {
        "id": f"urn:r:{number}",
        "type": "ContextSourceRegistration",
        "endpoint": "http://source.example",
        "information": [{"entities": [{"type": kind}]}],
    }
    return parse_registration(body | members, CORE, now_text())


def subscription(number: int = 1, **members: Any) -> RegistrationSubscription:
    body = {
        "id": f"urn:s:{number}",
        "type": "Subscription",
        "entities": [{"type": "Building"}],
        "notification": {"endpoint": {"uri": "http://client.example/notify"}},
    }
    return parse_registration_subscription(body | members, CORE, now_text())


def found(here: Here, **params: str) -> list[str]:
    return [kept.id for kept in here.registrations.find(parse_sought(params, CORE))]


async def save(here: Here, id_: str = "urn:b:1", *names: str) -> None:
    now = now_text()
    attributes = {DEFAULT_VOCAB + name: [{"type": "Property", "value": 1}] for name in names}
    entity = Entity(id=id_, types=(DEFAULT_VOCAB + "Building",), attributes=attributes, created_at=now, modified_at=now)
    await here.store.submit(SaveChange(Change("created", now, None, entity), "create"))


def test_registrations_are_found_changed_and_removed() -> None:
    async def work(here: Here) -> None:
        for number, kind in ((1, "Building"), (2, "Tower"), (3, "Building")):
            await here.registrations.create(registration(number, kind))
        assert found(here, type="Building") == ["urn:r:1", "urn:r:3"]
        old = here.registrations.get("urn:r:1")
        await here.registrations.replace(
            old, patch_registration(old, {"information": [{"propertyNames": ["a"]}]}, CORE, now_text())
        )
        assert found(here, type="Tower") == ["urn:r:1", "urn:r:2"]
        with pytest.raises(Conflict):
            await here.registrations.replace(old, old)
        with pytest.raises(AlreadyExists):
            await here.registrations.create(registration(2))
        await here.registrations.remove("urn:r:2")
        with pytest.raises(ResourceNotFound):
            here.registrations.get("urn:r:2")
        with pytest.raises(ResourceNotFound):
            await here.registrations.remove("urn:r:2")

    running(work)


def test_they_survive_a_restart(tmp_path: Path) -> None:
    async def make(here: Here) -> None:
        await here.registrations.create(registration(1))
        await here.registrations.create(registration(2))
        await here.registrations.remove("urn:r:1")
        await here.registrations.subscriptions.create(subscription(1, entities=[{"type": "Tower"}]))
        here.outbox.counters["urn:s:1"].times_sent = 7
        here.outbox.changed("urn:s:1")

    async def look(here: Here) -> None:
        assert found(here, type="Building") == ["urn:r:2"]
        assert list(here.router.broker.clients) == ["csource/urn:r:2"]
        kept, counters = here.registrations.subscriptions.get("urn:s:1")
        assert (kept.id, counters.times_sent) == ("urn:s:1", 7)
        await here.registrations.create(registration(3, "Tower"))
        assert here.outbox.told() == [("newlyMatching", ["urn:r:3"])]

    running(make, tmp_path)
    running(look, tmp_path)


def test_a_registration_is_an_advertisement_as_long_as_it_lasts() -> None:
    async def work(here: Here) -> None:
        await here.registrations.create(registration(1))
        advertisements = here.router.broker.clients["csource/urn:r:1"].advertisements
        assert [selector.type for selector in advertisements["urn:r:1"].selectors] == [DEFAULT_VOCAB + "Building"]
        await here.registrations.remove("urn:r:1")
        assert not here.router.broker.clients

    running(work)


def test_what_ends_is_removed_and_told() -> None:
    async def work(here: Here) -> None:
        await here.registrations.subscriptions.create(subscription())
        soon = (datetime.now(UTC) + timedelta(milliseconds=50)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        await here.registrations.create(registration(1, expiresAt=soon))
        reasons = [(await here.outbox.given.get())["triggerReason"] for _ in range(2)]
        assert reasons == ["newlyMatching", "noLongerMatching"]
        assert here.store.documents("registration") == []

    running(work)


def exclusive(number: int, id_: str = "urn:b:1") -> Registration:
    information = [{"entities": [{"type": "Building", "id": id_}], "propertyNames": ["height"]}]
    return registration(number, mode="exclusive", information=information)


def test_nobody_takes_for_itself_what_another_has() -> None:
    async def work(here: Here) -> None:
        await here.registrations.create(exclusive(1))
        for other in (exclusive(2), registration(2, mode="redirect")):
            with pytest.raises(Conflict):
                await here.registrations.create(other)
        await here.registrations.create(exclusive(2, "urn:b:2"))
        await here.registrations.create(registration(3))
        old = here.registrations.get("urn:r:3")
        with pytest.raises(Conflict):
            await here.registrations.replace(old, patch_registration(old, {"mode": "redirect"}, CORE, now_text()))

    running(work)


@pytest.mark.parametrize(
    ("claimant", "conflict"),
    [
        (exclusive(1), True),
        (exclusive(1, "urn:b:2"), False),
        (registration(1, mode="redirect"), True),
        (registration(1, "Tower", mode="redirect"), False),
        (registration(1, mode="redirect", information=[{"entities": [{"type": "Building", "id": "urn:b:1"}]}]), True),
        (registration(1, mode="redirect", information=[{"entities": [{"type": "Building", "idPattern": "2$"}]}]), False),
        (registration(1, mode="redirect", information=[{"propertyNames": ["width"]}]), False),
        (registration(1), False),
    ],
)
def test_nobody_takes_for_itself_what_is_here(claimant: Registration, conflict: bool) -> None:
    async def work(here: Here) -> None:
        await save(here, "urn:b:1", "height")
        if not conflict:
            await here.registrations.create(claimant)
            return
        with pytest.raises(Conflict):
            await here.registrations.create(claimant)
        assert here.store.documents("registration") == []

    running(work)


# --- subscriptions ----------------------------------------------------------------------------------------------------


def test_a_subscriber_hears_what_is_there_and_what_comes_changes_and_goes() -> None:
    async def work(here: Here) -> None:
        await here.registrations.create(registration(1))
        await here.registrations.create(registration(2, "Tower"))
        await here.registrations.subscriptions.create(subscription())
        assert here.outbox.told() == [("newlyMatching", ["urn:r:1"])]
        await here.registrations.create(registration(3))
        old = here.registrations.get("urn:r:3")
        new = patch_registration(old, {"endpoint": "http://other.example"}, CORE, now_text())
        await here.registrations.replace(old, new)
        gone = patch_registration(new, {"information": [{"entities": [{"type": "Tower"}]}]}, CORE, now_text())
        await here.registrations.replace(new, gone)
        await here.registrations.remove("urn:r:3")
        await here.registrations.remove("urn:r:1")
        assert here.outbox.told() == [
            ("newlyMatching", ["urn:r:3"]),
            ("updated", ["urn:r:3"]),
            ("noLongerMatching", ["urn:r:3"]),
            ("noLongerMatching", ["urn:r:1"]),
        ]
        assert len(here.store.pending_deliveries()) == 5

    running(work)


def test_nobody_is_told_that_there_is_nothing() -> None:
    async def work(here: Here) -> None:
        await here.registrations.subscriptions.create(subscription())
        await here.registrations.create(registration(1, "Tower"))
        assert here.outbox.told() == []

    running(work)


def test_a_changed_subscription_hears_of_all_that_it_finds_now() -> None:
    async def work(here: Here) -> None:
        await here.registrations.create(registration(1, "Tower"))
        await here.registrations.subscriptions.create(subscription())
        old, _ = here.registrations.subscriptions.get("urn:s:1")
        new = patch_registration_subscription(old, {"entities": [{"type": "Tower"}, {"type": "Bus"}]}, CORE, now_text())
        await here.registrations.subscriptions.replace(old, new)
        assert here.outbox.told() == [("newlyMatching", ["urn:r:1"])]

    running(work)


@pytest.mark.parametrize("members", [{"isActive": False}, {"throttling": 3600}])
def test_a_subscription_can_be_quiet(members: dict[str, Any]) -> None:
    async def work(here: Here) -> None:
        await here.registrations.subscriptions.create(subscription(**members))
        await here.registrations.create(registration(1))
        await here.registrations.create(registration(2))
        assert len(here.outbox.told()) == (1 if "throttling" in members else 0)

    running(work)


def test_a_subscription_in_time_hears_again_and_again() -> None:
    async def work(here: Here) -> None:
        await here.registrations.create(registration(1))
        await here.registrations.subscriptions.create(subscription(timeInterval=0.02))
        for _ in range(3):
            assert [item["id"] for item in (await here.outbox.given.get())["data"]] == ["urn:r:1"]
        await here.registrations.subscriptions.remove("urn:s:1")

    running(work)


def test_subscriptions_are_listed_and_end() -> None:
    async def work(here: Here) -> None:
        subscriptions = here.registrations.subscriptions
        for number in (2, 1):
            await subscriptions.create(subscription(number))
        assert [kept.id for kept, _ in subscriptions.all()] == ["urn:s:2", "urn:s:1"]
        with pytest.raises(AlreadyExists):
            await subscriptions.create(subscription(1))
        await subscriptions.remove("urn:s:1")
        with pytest.raises(ResourceNotFound):
            subscriptions.get("urn:s:1")
        await here.registrations.create(registration(1))
        assert len(here.outbox.told()) == 1

    running(work)


def test_registrations_are_not_streamed() -> None:
    async def work(here: Here) -> None:
        with pytest.raises(BadRequestData):
            await here.registrations.subscriptions.create(subscription(notification={"endpoint": {"uri": "urn:hanse:stream"}}))

    running(work)


def test_what_cannot_be_stored_is_not_there() -> None:
    async def work(here: Here) -> None:
        def refuse(*_: Any) -> Any:
            raise NgsiLdError("full")

        here.store.submit = refuse  # type: ignore[method-assign]
        with pytest.raises(NgsiLdError):
            await here.registrations.create(registration(1))
        with pytest.raises(NgsiLdError):
            await here.registrations.subscriptions.create(subscription())
        assert found(here, type="Building") == []
        assert here.registrations.subscriptions.all() == []

    running(work)
