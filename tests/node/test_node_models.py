"""The models of a real tenant: kept, shared, and what they let pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.serving import settings_with

from hanse.model import InvalidInput
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, Entity, now_text
from hanse.ngsild.errors import AlreadyExists, BadRequestData, Conflict, NgsiLdError, ResourceNotFound, TooManyResults
from hanse.ngsild.models import DataModel, parse_model
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.node import models as module
from hanse.node.metrics import METRICS
from hanse.node.models import Models, as_mode
from hanse.node.tenant import Node, Tenant

ROOM, ASSET = DEFAULT_VOCAB + "Room", DEFAULT_VOCAB + "Asset"


def _dashed(members: dict[str, Any]) -> dict[str, Any]:
    """x_extends is x-extends, which is no name in Python."""
    return {name.replace("x_", "x-"): value for name, value in members.items()}


def model(type_: str = "Room", properties: dict[str, Any] | None = None, **more: Any) -> DataModel:
    return parse_model({"properties": {"type": {"const": type_}} | (properties or {})} | _dashed(more), CORE)


def room(**rule: Any) -> DataModel:
    return model("Room", {"level": {"type": "number"} | rule, "name": {}}, required=["name"])


def running(work: Callable[[Tenant], Awaitable[None]], directory: Path | None = None, **models: Any) -> None:
    async def run() -> None:
        node = Node(settings_with(store={"data": str(directory or "")}, models=models))
        await node.start()
        try:
            await work(node.tenants[""])
        finally:
            await node.stop()

    asyncio.run(run())


async def create(tenant: Tenant, id_: str = "urn:r:1", type_: Any = "Room", **attributes: Any) -> None:
    now = now_text()
    entity = parse_entity({"id": id_, "type": type_} | attributes, CORE, now)
    await tenant.change(id_, lambda _: operations.create(entity, now), "create")


async def update(tenant: Tenant, **attributes: Any) -> None:
    fragment = parse_fragment(attributes, CORE, now_text(), allow_null=True)

    def changed(old: Entity | None) -> Any:
        assert old is not None
        return operations.update(old, fragment, now_text())

    await tenant.change("urn:r:1", changed, "update")


def counted(mode: str) -> int:
    return METRICS._counts["model_violations", mode]


def test_off_lets_everything_pass() -> None:
    async def work(tenant: Tenant) -> None:
        await tenant.models.put(room())
        assert tenant.models.mode(ROOM) == "off"
        assert not tenant.models.active
        await create(tenant, level="high")

    running(work)


def test_enforce_refuses_and_names_attribute_rule_and_model() -> None:
    async def work(tenant: Tenant) -> None:
        await tenant.models.put(room())
        before = counted("enforce")
        with pytest.raises(BadRequestData, match=r"the model of 'Room'.* name: it is missing \(rule: required\)"):
            await create(tenant, level=1)
        with pytest.raises(BadRequestData, match=r'level: "high" is not of type "number" \(rule: type\)'):
            await create(tenant, level="high", name="hall")
        assert tenant.store.latest("urn:r:1") is None
        assert counted("enforce") == before + 2
        await create(tenant, level=1, name="hall")
        await create(tenant, "urn:o:1", "Other", level="high")
        with pytest.raises(BadRequestData, match="level"):
            await create(tenant, "urn:o:2", ["Other", "Room"], level="high", name="x")

    running(work, types={"Room": "enforce"})


def test_a_patch_is_judged_by_what_it_changes() -> None:
    async def work(tenant: Tenant) -> None:
        await create(tenant, level="high")
        await tenant.models.put(room())
        await update(tenant, other=1)
        with pytest.raises(BadRequestData, match="level"):
            await update(tenant, level="low")
        await update(tenant, level=2)
        await update(tenant, name="hall")
        with pytest.raises(BadRequestData, match="name: it is missing"):
            await update(tenant, name="urn:ngsi-ld:null")
        with pytest.raises(BadRequestData, match="name: it is missing"):
            await tenant.change("urn:r:1", partial(replaced, level=1), "replace")
        with pytest.raises(BadRequestData, match="name: it is missing"):
            await tenant.change("urn:r:1", partial(replaced, level=1), "upsert")
        await tenant.change("urn:r:1", lambda old: operations.delete(old, now_text()) if old else None, "delete")

    running(work, default="enforce")


def replaced(old: Entity | None, **attributes: Any) -> Any:
    assert old is not None
    return operations.replace(old, parse_entity({"id": old.id, "type": "Room"} | attributes, CORE, now_text()), now_text())


def test_a_replacement_counts_as_a_whole_even_if_it_was_bad_before() -> None:
    async def work(tenant: Tenant) -> None:
        await create(tenant, level="high")
        await tenant.models.put(room())
        for name in ("replace", "upsert"):
            with pytest.raises(BadRequestData, match="name: it is missing"):
                await tenant.change("urn:r:1", partial(replaced, level=1), name)
        await tenant.change("urn:r:1", partial(replaced, level=1, name="x"), "replace")

    running(work, default="enforce")


def test_who_becomes_a_room_is_judged_as_one() -> None:
    async def work(tenant: Tenant) -> None:
        await tenant.models.put(room())
        await create(tenant, type_="Other", level=1)
        with pytest.raises(BadRequestData, match="name: it is missing"):
            await update(tenant, type="Room")
        await update(tenant, type="Room", name="x")

    running(work, default="enforce")


def test_what_ends_by_itself_is_not_held_back() -> None:
    async def work(tenant: Tenant) -> None:
        await create(tenant, level=1, name={"value": "x", "expiresAt": "2100-01-01T00:00:00Z"})
        await tenant.models.put(room())
        applied = tenant.apply("urn:r:1", lambda old: operations.expire(old, "2101-01-01T00:00:00Z"), "expire")
        assert applied.committed is not None
        await applied.committed
        left = tenant.store.latest("urn:r:1")
        assert left is not None
        assert list(left.attributes) == [DEFAULT_VOCAB + "level"]

    running(work, default="enforce")


def test_warn_lets_pass_counts_and_tells_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(tenant: Tenant) -> None:
        await tenant.models.put(room())
        before = counted("warn")
        with capture_logs() as lines:
            for number in range(3):
                await create(tenant, f"urn:r:{number}", level="high")
        assert counted("warn") == before + 3
        warnings = [line for line in lines if line["log_level"] == "warning"]
        assert len(warnings) == 1
        assert warnings[0]["entity"] == "urn:r:0"
        assert len(warnings[0]["violations"]) == 2
        monkeypatch.setattr(module, "TOLD_S", 0.0)
        with capture_logs() as lines:
            await create(tenant, "urn:r:9", level="high")
        assert len(lines) == 1
        assert b'hanse_model_violations_total{kind="warn"}' in METRICS.text()

    running(work, default="warn")


def test_the_mode_is_that_of_the_api_then_of_the_type_then_the_default() -> None:
    async def work(tenant: Tenant) -> None:
        models = tenant.models
        await models.put(room())
        assert (models.mode(ROOM), models.mode(ASSET)) == ("enforce", "warn")
        assert models.mode("https://x.example/T") == "off"
        await models.set_mode(ROOM, "off")
        assert models.mode(ROOM) == "off"
        assert not models.active
        await models.put(room(minimum=1))
        assert models.mode(ROOM) == "off"  # it goes with the type, not with the version
        await models.set_mode(ROOM, None)
        assert models.mode(ROOM) == "enforce"
        with pytest.raises(ResourceNotFound):
            await models.set_mode(ASSET, "off")

    running(work, default="warn", types={"Room": "enforce", "https://x.example/T": "off"})
    assert [as_mode(value) for value in ("off", "warn", "enforce", None)] == ["off", "warn", "enforce", None]
    with pytest.raises(BadRequestData):
        as_mode("strict")


def test_a_setting_for_what_is_no_type_is_told() -> None:
    async def work(_tenant: Tenant) -> None:
        raise AssertionError

    with pytest.raises(InvalidInput, match=r"\[models\] types: .*not legal"):
        running(work, types={"no type!": "warn"})


def test_they_survive_a_restart(tmp_path: Path) -> None:
    digests = []

    async def make(tenant: Tenant) -> None:
        await tenant.models.put(model("Asset", {"name": {"type": "string"}}))
        await tenant.models.put(model("Room", {"level": {"type": "number"}}, x_extends="Asset"))
        await tenant.models.put(model("Old"))
        await tenant.models.remove(DEFAULT_VOCAB + "Old")
        await tenant.models.set_mode(ROOM, "enforce")
        digests.append(tenant.models.digest())

    async def look(tenant: Tenant) -> None:
        assert list(tenant.models.there()) == [ASSET, ROOM]
        assert tenant.models.mode(ROOM) == "enforce"
        assert tenant.models.digest() == digests[0]
        with pytest.raises(BadRequestData, match="name"):
            await create(tenant, name=5)

    running(make, tmp_path)
    running(look, tmp_path)


def test_what_does_not_hold_together_changes_nothing() -> None:
    async def work(tenant: Tenant) -> None:
        models = tenant.models
        with pytest.raises(BadRequestData, match="no model"):
            await models.put(model("Room", x_extends="Asset"))
        assert not models.there()
        await models.put(model("Asset", {"name": {}}))
        await models.put(model("Room", {"level": {}}, x_extends="Asset", x_dynamic=["name"]))
        with pytest.raises(AlreadyExists):
            await models.add(room())
        with pytest.raises(BadRequestData, match="cannot extend itself"):
            await models.put(model("Asset", {"name": {}}, x_extends="Room"))
        with pytest.raises(BadRequestData, match="x-dynamic"):
            await models.put(model("Asset"))  # the heir needs the name
        with pytest.raises(Conflict):
            await models.remove(ASSET)
        assert "name" in models.compiled(ROOM).properties
        await models.put(model("Asset", {"name": {}, "weight": {}}))
        assert "weight" in models.compiled(ROOM).properties
        await models.remove(ROOM)
        await models.remove(ASSET)
        with pytest.raises(ResourceNotFound):
            await models.remove(ASSET)

    running(work)


def test_what_cannot_be_stored_is_not_there() -> None:
    async def work(tenant: Tenant) -> None:
        await tenant.models.put(room())
        kept = tenant.models.get(ROOM)

        def refuse(*_: Any) -> Any:
            raise NgsiLdError("full")

        submit, tenant.store.submit = tenant.store.submit, refuse  # type: ignore[method-assign]
        with pytest.raises(NgsiLdError):
            await tenant.models.put(model("Asset"))
        with pytest.raises(NgsiLdError):
            await tenant.models.remove(ROOM)
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        failed.set_exception(NgsiLdError("lost"))
        tenant.store.submit = lambda *_: failed  # type: ignore[method-assign]
        with pytest.raises(NgsiLdError):
            await tenant.models.put(model("Asset"))
        with pytest.raises(NgsiLdError):
            await tenant.models.remove(ROOM)
        tenant.store.submit = submit  # type: ignore[method-assign]
        assert tenant.models.there() == {ROOM: kept.model}
        with pytest.raises(BadRequestData):
            await create(tenant, level="high")

    running(work, default="enforce")


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODELS_MAX", 2)
    monkeypatch.setattr(module, "DELETED_MAX", 2)

    async def work(tenant: Tenant) -> None:
        for number in range(4):
            await tenant.models.put(model(f"T{number}"))
            await tenant.models.remove(f"{DEFAULT_VOCAB}T{number}")
        assert [gone.name for gone in tenant.models.all()] == ["T2", "T3"]
        assert len(tenant.store.documents(module.KIND)) == 2
        await tenant.models.put(model("A"))
        await tenant.models.put(model("B"))
        with pytest.raises(TooManyResults):
            await tenant.models.put(model("C"))
        await tenant.models.put(model("B", {"b": {}}))
        assert tenant.models.bounds() == {"models": (2, 2), "models_deleted": (2, 2)}

    running(work)


def test_an_advertisement_can_name_a_model() -> None:
    async def work(tenant: Tenant) -> None:
        assert tenant.models.name_for(ROOM) is None
        await tenant.models.put(room())
        name = tenant.models.name_for(ROOM)
        assert name == "http://127.0.0.1:9090/hanse/v1/models/https%3A%2F%2Furi.etsi.org%2Fngsi-ld%2Fdefault-context%2FRoom"
        await tenant.models.remove(ROOM)
        assert tenant.models.name_for(ROOM) is None

    running(work)


# --- sharing ----------------------------------------------------------------------------------------------------------


async def tell(from_: Models, to: Models, *, backwards: bool = False) -> list[bool]:
    told = [*reversed(from_.all())] if backwards else from_.all()
    sent = [msgspec.json.decode(msgspec.json.encode(one), type=DataModel) for one in told]
    return [await to.take(one, "there") for one in sent]


def two(work: Callable[[Tenant, Tenant], Awaitable[None]], **models: Any) -> None:
    async def run() -> None:
        nodes = [Node(settings_with(models=models)) for _ in range(2)]
        for node in nodes:
            await node.start()
        try:
            await work(*(node.tenants[""] for node in nodes))
        finally:
            for node in nodes:
                await node.stop()

    asyncio.run(run())


def test_two_nodes_come_to_know_the_same() -> None:
    async def work(one: Tenant, other: Tenant) -> None:
        await one.models.put(model("Asset", {"name": {"type": "string"}}))
        await one.models.put(model("Room", x_extends="Asset"))
        await other.models.put(model("Tower"))
        assert one.models.digest() != other.models.digest()
        assert await tell(one.models, other.models, backwards=True) == [True, True]  # the heir before its parent
        await tell(other.models, one.models)
        assert one.models.digest() == other.models.digest()
        assert await tell(one.models, other.models) == [False] * 3
        assert (other.models.get(ROOM).origin, other.models.get(DEFAULT_VOCAB + "Tower").origin) == ("there", "")
        with pytest.raises(BadRequestData, match="name"):
            await create(other, name=5)

    two(work, default="enforce")


def test_the_newest_wins_and_what_is_deleted_stays_so() -> None:
    async def work(one: Tenant, other: Tenant) -> None:
        await one.models.put(room())
        await tell(one.models, other.models)
        await other.models.set_mode(ROOM, "warn")
        await one.models.put(room(minimum=5))
        assert await tell(other.models, one.models) == [False]
        assert await tell(one.models, other.models) == [True]
        assert other.models.mode(ROOM) == "warn"  # everybody's own affair
        await other.models.remove(ROOM)
        assert await tell(one.models, other.models) == [False]
        assert await tell(other.models, one.models) == [True]
        assert not one.models.there()
        assert one.models.digest() == other.models.digest()
        await one.models.add(room())
        assert await tell(one.models, other.models) == [True]
        assert list(other.models.there()) == [ROOM]

    two(work)


def test_a_clock_that_is_ahead_does_not_win_for_ever() -> None:
    async def work(one: Tenant, other: Tenant) -> None:
        ahead = msgspec.structs.replace(room(), modified_at="2900-12-31T23:59:59.999999Z")
        assert await one.models.take(ahead, "there")
        await one.models.put(room(minimum=5))
        assert one.models.get(ROOM).model.modified_at == "2901-01-01T00:00:00.000000Z"
        await tell(one.models, other.models)
        await other.models.remove(ROOM)
        assert await tell(other.models, one.models) == [True]
        assert not one.models.there()

    two(work)


def test_a_parent_that_is_gone_elsewhere_leaves_its_heirs_unused() -> None:
    async def work(one: Tenant, other: Tenant) -> None:
        await one.models.put(model("Asset", {"name": {"type": "string"}}))
        await tell(one.models, other.models)
        await other.models.put(model("Room", x_extends="Asset"))
        await one.models.remove(ASSET)
        with capture_logs() as lines:
            assert await tell(one.models, other.models) == [True]
        assert any("cannot be used" in line["event"] for line in lines)
        await create(other, name=5)  # nothing to check it against
        await tell(other.models, one.models)
        assert one.models.digest() == other.models.digest()

    two(work, default="enforce")


def test_what_others_tell_is_looked_at() -> None:
    async def work(one: Tenant, _other: Tenant) -> None:
        for bad in (room(), msgspec.structs.replace(room(), modified_at=now_text(), type="no URI")):
            with pytest.raises(BadRequestData):
                await one.models.take(bad, "there")
        assert not one.models.all()

    two(work)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_in_whatever_order_all_know_the_same_in_the_end(seed: int) -> None:
    random = Random(seed)
    names = ["A", "B", "C", "D"]

    async def step(models: list[Models]) -> None:
        here, name = random.choice(models), random.choice(names)
        try:
            match random.randrange(4):
                case 0 | 1:
                    parents = [other for other in names if other < name and random.random() < 0.5]
                    await here.put(model(name, {f"p{random.randrange(3)}": {"minimum": random.randrange(9)}}, x_extends=parents))
                case 2:
                    await here.remove(DEFAULT_VOCAB + name)
                case _:
                    await tell(here, random.choice(models), backwards=random.random() < 0.5)
        except (BadRequestData, Conflict, ResourceNotFound):
            pass  # as it may be: what it extends is not there, an heir needs it, there is none

    async def run() -> None:
        nodes = [Node(settings_with(models={"default": "enforce"})) for _ in range(3)]
        for node in nodes:
            await node.start()
        try:
            models = [node.tenants[""].models for node in nodes]
            for _ in range(60):
                await step(models)
            for _ in range(2):
                for one in models:
                    for other in models:
                        await tell(one, other)
            assert len({one.digest() for one in models}) == 1
            assert len({tuple(sorted(one.there())) for one in models}) == 1
            assert len({tuple(sorted(one.active)) for one in models}) == 1
        finally:
            for node in nodes:
                await node.stop()

    asyncio.run(run())
