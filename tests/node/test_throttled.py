"""What throttling holds back: sent when the interval is over, whatever happens meanwhile; and subscriptions in time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.subscribing import append, create, inbox, levels, run, subscribe, tenant

from hanse.ngsild.contexts import CORE
from hanse.ngsild.errors import BadRequestData, TooManyPending
from hanse.node import subscriptions, throttled


def test_throttling_sends_the_last_state_of_each_entity_when_the_interval_is_over() -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await create(node, "urn:b:1", level=0)
            await create(node, "urn:b:2", level=0)
            await subscribe(node, there.url, throttling=0.4)
            await append(node, "urn:b:1", level=1)
            assert levels(await there.next()) == [1]
            for level in range(2, 6):
                await append(node, "urn:b:1", level=level)
                await append(node, "urn:b:2", level=10 * level)
            assert sorted(levels(await there.next())) == [5, 50]
            assert node.subscriptions.get("urn:s:1").skipped == 6
            await append(node, "urn:b:1", level=6)
            assert levels(await there.next()) == [6]

    run(test)


def test_what_throttling_holds_back_outlives_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with inbox() as there:
            async with tenant(tmp_path) as node:
                await subscribe(node, there.url, throttling=3600)
                await create(node, "urn:b:1", level=0)
                assert levels(await there.next()) == [0]
                await append(node, "urn:b:1", level=1)
                await append(node, "urn:b:1", level=2)
                await create(node, "urn:b:2", level=20)
            async with tenant(tmp_path) as node:
                assert len(node.store.documents(throttled.KIND)) == 2
                await create(node, "urn:b:3", level=300)  # the interval goes on
                await node.subscriptions.update("urn:s:1", {"throttling": 0.01}, CORE)
                assert levels(await there.next()) == [2, 20, 300]
                await node.subscriptions.delete("urn:s:1")
                assert node.store.documents(throttled.KIND) == []
                assert there.got.empty()

    run(test)


def test_a_patch_keeps_what_throttling_holds_back_if_it_is_still_asked_for() -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await subscribe(node, there.url, throttling=3600)
            await create(node, "urn:b:1", level=0)
            await there.next()
            await append(node, "urn:b:1", level=1)
            await create(node, "urn:b:2", level=5)
            await create(node, "urn:b:3", level=6)
            await node.subscriptions.update("urn:s:1", {"q": "level>3"}, CORE)
            assert sorted(node.subscriptions.get("urn:s:1").held) == ["urn:b:2", "urn:b:3"]
            assert len(node.store.documents(throttled.KIND)) == 2
            with pytest.raises(BadRequestData):
                await node.subscriptions.update("urn:s:1", {"scopes": {"no": "such"}}, CORE)
            await node.subscriptions.update("urn:s:1", {"throttling": None}, CORE)
            assert levels(await there.next()) == [5, 6]

    run(test)


def test_what_throttling_holds_back_ends_with_its_subscription(tmp_path: Path) -> None:
    async def test() -> None:
        async with inbox() as there, tenant(tmp_path) as node:
            await subscribe(node, there.url, throttling=3600)
            for level in range(3):
                await create(node, f"urn:b:{level}", level=level)
            assert len(node.store.documents(throttled.KIND)) == 2
            await node.subscriptions.delete("urn:s:1")
            assert node.store.documents(throttled.KIND) == []

    run(test)


def test_a_full_store_only_delays_what_throttling_holds_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await subscribe(node, there.url, throttling=3600)
            await create(node, "urn:b:1", level=0)
            await there.next()
            await append(node, "urn:b:1", level=1)
            live = node.subscriptions.get("urn:s:1")
            live.stop()
            monkeypatch.setattr(subscriptions, "RELEASE_AGAIN_S", 0.0)
            refused = asyncio.Event()
            submit = node.store.submit

            def full(*_writes: Any) -> Any:
                refused.set()
                monkeypatch.setattr(node.store, "submit", submit)
                raise TooManyPending("full")

            monkeypatch.setattr(node.store, "submit", full)
            node.subscriptions._release(live)
            assert refused.is_set()
            assert levels(await there.next()) == [1]

    run(test)


def test_nobody_is_told_of_a_change_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await subscribe(node, there.url, throttling=3600)
            await create(node, "urn:b:1", level=0)
            await there.next()
            await append(node, "urn:b:1", level=1)
            with monkeypatch.context() as patch:
                patch.setattr(node.store, "submit", full)
                with pytest.raises(TooManyPending):
                    await append(node, "urn:b:1", level=2)
                with pytest.raises(TooManyPending):
                    await create(node, "urn:b:2", level=3)
            await node.subscriptions.update("urn:s:1", {"throttling": None}, CORE)
            assert levels(await there.next()) == [1]

    def full(*_writes: Any) -> Any:
        raise TooManyPending("full")

    run(test)


def test_a_subscription_in_time_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with inbox() as there:
            async with tenant(tmp_path) as node:
                await create(node, "urn:b:1", level=5)
                await subscribe(node, there.url, timeInterval=0.05)
                assert levels(await there.next()) == [5]
            while not there.got.empty():
                there.got.get_nowait()
            async with tenant(tmp_path):
                assert levels(await there.next()) == [5]

    run(test)
