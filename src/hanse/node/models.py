"""The data models of a tenant, in memory and in the store, and the check of every change against them.

What happens to a change that is not as its model wants it is a matter of the type: nothing (off), or it is counted and told in
the log (warn), or it is refused (enforce). The settings say which for a start, the API from then on. A type whose models are off
costs nothing: `active` holds the others only, and is empty in most nodes.

Nodes share their models: `all` is what one has to tell, `digest` whether there is anything new in it, and `take` hears it. The
newest version of a model wins wherever it came from, and a model that was deleted is remembered as such for a while, so that
nobody brings it back who has not heard. What is given here must hold together; what others tell is taken in any order, and a
model whose parent is not here (yet, or any more) is kept, but nothing is checked against it.
"""

from __future__ import annotations

import hashlib
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import AlreadyExists, BadRequestData, Conflict, ResourceNotFound, TooManyResults
from hanse.ngsild.models import CompiledModel, DataModel, check_model, resolve, violations
from hanse.node.metrics import COUNTERS, METRICS
from hanse.node.store import DeleteDocument, PutDocument

if TYPE_CHECKING:
    from hanse.ngsild.entity import Change
    from hanse.node.store import Write
    from hanse.node.tenant import Tenant

Mode: TypeAlias = Literal["off", "warn", "enforce"]

KIND: Final = "model"
MODELS_MAX: Final = 1_000
DELETED_MAX: Final = 1_000  # that are remembered as such; the oldest go first
TOLD_S: Final = 60.0  # between two lines in the log about the same type
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
COUNTERS["model_violations"] = "Changes that are not as their data model wants them: let pass (warn) or refused (enforce)"

log = structlog.get_logger("hanse.models")


class KeptModel(Struct, frozen=True, omit_defaults=True):
    model: DataModel
    origin: str = ""  # the node that it was heard of from; "": it was given here
    mode: Mode | None = None  # None: what the settings say


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(KeptModel).decode


class Models:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._kept: dict[str, KeptModel] = {}  # by type; those that are deleted, too
        self._compiled: dict[str, CompiledModel] = {}
        self.active: dict[str, tuple[CompiledModel, Mode]] = {}  # those that are not off
        self._required: dict[str, frozenset[str]] = {}  # type -> what its model requires; a new one whenever models change
        self._told: dict[str, float] = {}  # type -> when the log had a line about it
        settings = tenant.settings.models
        self._default: Mode = settings.default
        try:
            self._modes: dict[str, Mode] = {CORE.expand_name(name): mode for name, mode in settings.types.items()}
        except BadRequestData as error:
            raise InvalidInput(error.message, place="[models] types") from None

    def restore(self) -> None:
        for type_, data in self._tenant.store.documents(KIND):
            self._kept[type_] = _decode(data)
        self._activate()

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        there = len(self.there())
        return {"models": (there, MODELS_MAX), "models_deleted": (len(self._kept) - there, DELETED_MAX)}

    # --- looking ----------------------------------------------------------------------------------------------------

    def there(self) -> dict[str, DataModel]:
        """The models that there are, by type."""
        return {type_: kept.model for type_, kept in self._kept.items() if not kept.model.is_deleted}

    def get(self, type_: str) -> KeptModel:
        kept = self._kept.get(type_)
        if kept is None or kept.model.is_deleted:
            raise ResourceNotFound(f"there is no model of the type {type_!r}")
        return kept

    def compiled(self, type_: str) -> CompiledModel:
        """The model with what it inherits."""
        found = self._compiled.get(type_)
        if found is None:
            found = self._compiled[type_] = resolve(self.get(type_).model, self.there())
        return found

    def required(self, type_: str) -> frozenset[str]:
        """The attributes that the model of a type requires; none, if there is no model. May be asked by any thread."""
        known = self._required
        found = known.get(type_)
        if found is None:
            there = {name: kept.model for name, kept in self._kept.copy().items() if not kept.model.is_deleted}
            try:
                model = resolve(there[type_], there) if type_ in there else None
            except BadRequestData:  # its parent is not here
                model = None
            properties = model.properties.values() if model is not None else ()
            found = known[type_] = frozenset(one.uri for one in properties if one.is_required)
        return found

    def mode(self, type_: str) -> Mode:
        """What happens to an entity of that type that is not as its model wants it."""
        kept = self._kept.get(type_)
        return (kept.mode if kept is not None else None) or self._modes.get(type_, self._default)

    def name_for(self, type_: str) -> str | None:
        """Where the model of a type can be had, for an advertisement to name; None if there is none."""
        kept = self._kept.get(type_)
        if kept is None or kept.model.is_deleted:
            return None
        return f"{self._tenant.contexts.base_url}/hanse/v1/models/{quote(type_, safe='')}"

    # --- changing ---------------------------------------------------------------------------------------------------

    async def add(self, model: DataModel) -> None:
        if model.type in self.there():
            raise AlreadyExists(f"there is a model of the type {model.name!r} already; PUT replaces it")
        await self.put(model)

    async def put(self, model: DataModel) -> None:
        """In the place of what there was; it wins over all that others have heard of so far."""
        kept = self._kept.get(model.type)
        new = msgspec.structs.replace(model, modified_at=self._now(model.type))
        await self._save(KeptModel(new, "", kept.mode if kept is not None else None))

    async def set_mode(self, type_: str, mode: Mode | None) -> None:
        await self._save(msgspec.structs.replace(self.get(type_), mode=mode))

    async def remove(self, type_: str) -> None:
        model = self.get(type_).model
        heirs = [heir.name for heir in self.there().values() if type_ in heir.extends]
        if heirs:
            raise Conflict(f"the model {heirs[0]!r} extends {model.name!r}; delete that first")
        await self._save(KeptModel(DataModel(type=type_, name=model.name, modified_at=self._now(type_), is_deleted=True)))

    def _now(self, type_: str) -> str:
        """A time after the last change of a model, even if someone's clock is ahead of ours."""
        now, kept = now_text(), self._kept.get(type_)
        if kept is None or kept.model.modified_at < now:
            return now
        later = datetime.fromisoformat(kept.model.modified_at) + timedelta(microseconds=1)
        return later.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    async def _save(self, new: KeptModel, *, strict: bool = True) -> None:
        """Keep it. `strict`: raises, and all stays as it was, unless it and all that inherit from it hold together."""
        type_, old = new.model.type, self._kept.get(new.model.type)
        if not new.model.is_deleted and type_ not in self.there() and len(self.there()) >= MODELS_MAX:
            raise TooManyResults(f"there are {MODELS_MAX} models already; delete some")
        self._kept[type_] = new
        try:
            if strict:
                for found in self._affected(type_):
                    resolve(self._kept[found].model, self.there())
            forgotten = self._forgotten()
            writes: list[Write] = [PutDocument(KIND, type_, _encode(new)), *(DeleteDocument(KIND, gone) for gone in forgotten)]
            committed = self._tenant.store.submit(*writes)
        except BaseException:
            self._keep(type_, old)
            raise
        for gone in forgotten:
            del self._kept[gone]
        self._keep(type_, new)
        try:
            await committed
        except BaseException:
            if self._kept.get(type_) is new:
                self._keep(type_, old)
            raise

    def _keep(self, type_: str, kept: KeptModel | None) -> None:
        if kept is None:
            del self._kept[type_]
        else:
            self._kept[type_] = kept
        for found in (type_, *self._affected(type_)):
            self._compiled.pop(found, None)
        self._activate()

    def _affected(self, type_: str) -> list[str]:
        """The type and all that inherit from it."""
        there = self.there()
        found = [type_]
        for one in found:  # it grows meanwhile
            found += [other for other, model in there.items() if one in model.extends and other not in found]
        return [one for one in found if one in there]

    def _forgotten(self) -> list[str]:
        deleted = sorted((kept.model.modified_at, type_) for type_, kept in self._kept.items() if kept.model.is_deleted)
        return [type_ for _, type_ in deleted[: max(0, len(deleted) - DELETED_MAX)]]

    def _activate(self) -> None:
        self._required = {}
        active: dict[str, tuple[CompiledModel, Mode]] = {}
        for type_ in self.there():
            mode = self.mode(type_)
            if mode != "off":
                try:
                    active[type_] = self.compiled(type_), mode
                except BadRequestData as error:
                    log.warning("a model cannot be used, and nothing is checked against it", model=type_, reason=str(error))
        self.active = active

    # --- with others ------------------------------------------------------------------------------------------------

    def all(self) -> list[DataModel]:
        """What there is to tell others: the models, and which are deleted."""
        return [kept.model for kept in self._kept.values()]

    def digest(self) -> str:
        """The same at two nodes that know the same models."""
        known = sorted(kept.model.digest for kept in self._kept.values())
        return hashlib.sha256("".join(known).encode()).hexdigest()

    async def take(self, model: DataModel, origin: str) -> bool:
        """A model that another node tells of; whether it is news. Raises BadRequestData if it is no model."""
        check_model(model)
        kept = self._kept.get(model.type)
        if kept is not None and (kept.model.modified_at, kept.model.digest) >= (model.modified_at, model.digest):
            return False
        mode = kept.mode if kept is not None and not model.is_deleted else None
        await self._save(KeptModel(model, origin, mode), strict=False)
        return True

    # --- checking ---------------------------------------------------------------------------------------------------

    def check(self, change: Change, operation: str) -> None:
        """Look at a change before it is made. Raises BadRequestData if a model is enforced that it violates."""
        entity = change.after
        if entity is None or operation == "expire":  # what ends by itself is refused by nobody
            return
        for type_ in entity.types:
            found = self.active.get(type_)
            if found is None:
                continue
            compiled, mode = found
            changed = None if _is_whole(change, operation, type_) else {item.name for item in change.attributes}
            broken = violations(compiled, entity, changed=changed)
            if not broken:
                continue
            METRICS.count("model_violations", mode)
            if mode == "enforce":
                raise BadRequestData(f"it is not as the model of {compiled.name!r} wants it: {'; '.join(broken)}")
            self._tell(compiled, entity.id, broken)

    def _tell(self, compiled: CompiledModel, id_: str, broken: list[str]) -> None:
        now = time.monotonic()
        if now - self._told.get(compiled.type, -TOLD_S) >= TOLD_S:
            self._told[compiled.type] = now
            log.warning("an entity is not as its model wants it", model=compiled.name, entity=id_, violations=broken)


def _is_whole(change: Change, operation: str, type_: str) -> bool:
    """Whether a change says all of an entity, so that what is missing counts: it is new, or has been replaced."""
    if change.before is None or operation == "replace" or type_ not in change.before.types:
        return True
    # a batch may replace or update; one that leaves no attribute as it was has said all there is
    return operation == "upsert" and {item.name for item in change.attributes} >= change.entity.attributes.keys()


def as_mode(value: object) -> Mode | None:
    for mode in MODES:
        if value == mode:
            return mode
    if value is None:
        return None
    raise BadRequestData(f"the mode is {', '.join(MODES)}, or null for what the settings say; not {str(value)[:40]!r}")
