"""Two who make something of the same name at the same time: one does, and it is that one's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.node.access.town import KEY

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import AlreadyExists
from hanse.ngsild.subscriptions import parse_subscription
from hanse.node.access import owners
from hanse.node.native import NativeClient
from hanse.node.settings import NodeSettings
from hanse.node.tenant import Node
from hanse.policies import Principal

ONE, TWO = Principal("one"), Principal("two")


async def scene(folder: Path) -> None:
    (folder / "all.cedar").write_text("permit (principal, action, resource);", encoding="utf-8")
    settings = {"access": {"policies": str(folder / "all.cedar"), "key": KEY}, "mqtt": {"embedded": False}}
    node = Node(msgspec.convert(settings, NodeSettings))
    await node.start()
    try:
        assert node.access is not None
        tenant = node.tenants[""]
        both = [node.access.seen(tenant, principal) for principal in (ONE, TWO)]
        body = {
            "id": "urn:sub:1",
            "type": "Subscription",
            "entities": [{"type": "Room"}],
            "notification": {"endpoint": {"uri": "http://127.0.0.1:9/"}},
        }
        snapshot = {
            "id": "urn:snap:1",
            "type": "Snapshot",
            "snapshotQueries": [{"type": "Query", "entities": [{"type": "Room"}]}],
        }
        subscription = parse_subscription(body, CORE, now_text())
        for kind, id_, made in (
            (owners.SUBSCRIPTION, "urn:sub:1", [seen.subscriptions.add(subscription) for seen in both]),
            (owners.CLIENT, "gauge", [seen.native.attach(NativeClient("gauge")) for seen in both]),
            (owners.SNAPSHOT, "urn:snap:1", [seen.snapshots.create(snapshot, CORE) for seen in both]),
        ):
            answers: list[Any] = await asyncio.gather(*made, return_exceptions=True)
            assert [isinstance(answer, AlreadyExists) for answer in answers] == [False, True], answers
            assert not isinstance(answers[0], BaseException)
            assert tenant.owners.of(kind, id_) == ONE
    finally:
        await node.stop()


def test_what_two_make_at_once_is_one_and_has_one_owner(tmp_path: Path) -> None:
    asyncio.run(scene(tmp_path))
