"""The JSON-LD contexts of one tenant: fetched once, compiled, kept in the store; and those that clients host here.

A context comes from the first place that has it: built in, hosted here, a file named in [contexts], what was fetched before, the
network. What a request brings is looked up in a dictionary of compiled contexts first (`resolve_now`); only a context never
seen before, or forgotten since, is put together from its documents.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from hanse.ngsild.contexts import CORE, CORE_URL, Context, compile_context, context_key, is_core_url, is_empty, referenced_urls
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import BadRequestData, LdContextNotAvailable, ResourceNotFound, TooManyPending
from hanse.ngsild.uris import is_uri
from hanse.node.context_fetch import Fetcher, decoded
from hanse.node.store import DeleteDocument, PutDocument

if TYPE_CHECKING:
    from hanse.node.settings import NodeSettings
    from hanse.node.store import Store, Write

Kind: TypeAlias = Literal["Hosted", "Cached", "ImplicitlyCreated"]
DOCUMENT_KIND: Final = "context"
_HOSTED_PATH: Final = re.compile(r"/ngsi-ld/v1/jsonldContexts/([A-Za-z0-9\-]{1,64})")
_encode = msgspec.json.encode


class KeptContext(Struct, kw_only=True):
    """A context document that this node keeps, and how it is used."""

    local_id: str
    url: str
    kind: Kind
    created_at: str
    document: Any  # an object with "@context"
    stays: bool = False  # something that stays refers to it; if not, it may go to make room for others
    hits: int = 0
    last_used_s: float = 0.0  # since 1970; 0: never

    def details(self) -> dict[str, Any]:
        """What the API says of it."""
        said = {
            "URL": self.url,
            "localId": self.local_id,
            "kind": self.kind,
            "createdAt": self.created_at,
            "numberOfHits": self.hits,
        }
        if self.last_used_s:
            said["lastUsage"] = datetime.fromtimestamp(self.last_used_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return said

    def hit(self) -> None:
        self.hits += 1
        self.last_used_s = time.time()


class _Compiled(Struct, frozen=True):
    context: Context
    named: tuple[KeptContext, ...]  # those that the source names itself: using the context uses them
    urls: frozenset[str]  # all that it is made of


class ContextService:
    def __init__(self, store: Store, settings: NodeSettings) -> None:
        self._store = store
        self._settings = settings
        self._files = {url: Path(file) for url, file in settings.contexts.items()}
        self._limits = settings.context_fetch
        self._fetcher = Fetcher(settings.context_fetch)
        self._kept: dict[str, KeptContext] = {}  # by local id
        self._by_url: dict[str, KeptContext] = {}  # the cached ones
        self._compiled: dict[str | bytes, _Compiled] = {}
        self._core = KeptContext(
            local_id=_local_id(CORE_URL), url=CORE_URL, kind="Cached", created_at=now_text(), document={"@context": CORE_URL}
        )
        node = settings.node
        host = "localhost" if node.host in {"0.0.0.0", "::"} else node.host  # noqa: S104
        self.base_url = (node.public_url or f"http://{f'[{host}]' if ':' in host else host}:{node.port}").rstrip("/")

    async def start(self) -> None:
        for _, data in self._store.documents(DOCUMENT_KIND):
            kept = msgspec.json.decode(data, type=KeptContext)
            if kept.kind == "Cached" and kept.url in self._files:
                kept.document = self._from_file(kept.url)
            self._remember(kept)

    async def stop(self) -> None:
        await self._fetcher.close()
        writes = [
            PutDocument(DOCUMENT_KIND, kept.local_id, _encode(kept))
            for kept in self._kept.values()
            if kept.kind == "Cached" or kept.stays
        ]
        if writes:
            await self._store.submit(*writes)

    # --- for requests -----------------------------------------------------------------------------------------------

    def resolve_now(self, source: Any) -> Context | None:
        """The compiled context of what a request names, if it is at hand."""
        try:
            found = self._compiled.get(source if type(source) is str else _encode(source))
        except (TypeError, ValueError, RecursionError):
            return None
        if found is None:
            return None
        for kept in found.named:
            kept.hit()
        return found.context

    async def resolve(self, source: Any) -> Context:
        """The compiled context of what a request names. Raises LdContextNotAvailable if part of it cannot be had."""
        at_hand = self.resolve_now(source)
        if at_hand is not None:
            return at_hand
        self._check_size(source)
        documents = await self._gathered(source)
        context = compile_context(source, documents, link_url=self._own_place(source))
        if context is CORE:
            return CORE
        self._implicit(context)
        named = tuple(kept for url in referenced_urls(source) if (kept := self._find_url(url)) is not None)
        for kept in named:
            kept.hit()
        self._keep_compiled(source, _Compiled(context, named, frozenset(documents)))
        return context

    def _check_size(self, source: Any) -> None:
        limit = self._limits.bytes_max
        if not isinstance(source, str) and len(_encode(source)) > limit:
            raise BadRequestData(f"the @context is larger than {limit} bytes")

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        """What is kept, and how much of it at most."""
        limit = self._limits.documents_max
        kinds: tuple[Kind, ...] = get_args(Kind)
        kept: dict[str, tuple[int, int | None]] = {
            f"contexts_{kind.lower()}": (sum(1 for _ in self.list(kind)), limit) for kind in kinds
        }
        return kept | {"contexts_compiled": (len(self._compiled), limit)}

    async def url_of(self, context: Context) -> str:
        """Where a client can get this context, for as long as nobody deletes it there."""
        kept = self._implicit(context)
        if kept is not None and not kept.stays:
            kept.stays = True
            await self._store.submit(PutDocument(DOCUMENT_KIND, kept.local_id, _encode(kept)))
        return context.link_url

    async def release(self, context: Context) -> None:
        """Nobody needs what `url_of` promised any more: it goes when room is needed."""
        kept = self._kept.get(context.link_url.rpartition("/")[2])
        if kept is not None and kept.kind == "ImplicitlyCreated" and kept.stays:
            kept.stays = False
            await self._store.submit(DeleteDocument(DOCUMENT_KIND, kept.local_id))

    def _implicit(self, context: Context) -> KeptContext | None:
        """The place made for a context that has no URL of its own."""
        if not context.link_url.startswith(self._place("")):
            return None
        local_id = context.link_url.rpartition("/")[2]
        kept = self._kept.get(local_id)
        if kept is None:
            self._make_room([kept for kept in self._kept.values() if kept.kind == "ImplicitlyCreated" and not kept.stays])
            kept = self._new("ImplicitlyCreated", context.document(), local_id)
            self._remember(kept)
        return kept

    # --- the API of /jsonldContexts ---------------------------------------------------------------------------------

    async def host(self, context: Any) -> KeptContext:
        """Keep what a client wants to be served from here. What it names by URL is not fetched before it is needed."""
        self._check_size(context)
        _check_shape(context)
        if sum(1 for _ in self.list("Hosted")) >= self._limits.documents_max:
            raise BadRequestData(f"{self._limits.documents_max} contexts are hosted here already; delete one first")
        kept = self._new("Hosted", context, str(uuid.uuid4()))
        kept.stays = True
        await self._store.submit(PutDocument(DOCUMENT_KIND, kept.local_id, _encode(kept)))
        self._remember(kept)
        return kept

    def list(self, kind: Kind | None = None) -> Iterator[KeptContext]:
        return (kept for kept in (self._core, *self._kept.values()) if kind is None or kept.kind == kind)

    def get(self, id_: str) -> KeptContext:
        """By its local id or its URL."""
        if is_core_url(id_) or id_ == self._core.local_id:
            return self._core
        kept = self._kept.get(id_) or self._find_url(id_)
        if kept is None:
            raise ResourceNotFound(f"there is no @context {id_[:200]!r} here")
        return kept

    async def delete(self, id_: str) -> None:
        kept = self.get(id_)
        if kept is self._core:
            raise BadRequestData("the core context cannot be deleted; it is built in")
        self._forget(kept)
        await self._store.submit(DeleteDocument(DOCUMENT_KIND, kept.local_id))

    async def reload(self, id_: str) -> None:
        """Fetch a cached context again; if that fails, everything stays as it is."""
        if not is_uri(id_) and id_ not in self._kept and id_ != self._core.local_id:
            raise BadRequestData(f"only a cached @context can be reloaded, and {id_[:200]!r} is none")
        kept = self.get(id_)
        if kept.kind != "Cached":
            raise BadRequestData(f"only a cached @context can be reloaded; this one is {kept.kind}, delete it and add it anew")
        if kept is self._core:
            return
        document = await self._from_outside(kept.url)
        compile_context(document, await self._gathered(document, kept.url))
        kept.document = document
        self._drop_compiled(kept.url)
        await self._store.submit(PutDocument(DOCUMENT_KIND, kept.local_id, _encode(kept)))

    # --- documents --------------------------------------------------------------------------------------------------

    async def _gathered(self, source: Any, base: str = "") -> dict[str, Any]:
        """What every URL in a context leads to, and every URL in that, and so on."""
        documents: dict[str, Any] = {}
        wanted = referenced_urls(source, base)
        depth = 0
        while wanted:
            depth += 1
            if depth > self._limits.depth_max:
                raise LdContextNotAvailable(f"the @context names others more than {self._limits.depth_max} deep")
            if len(documents) + len(wanted) > self._limits.documents_max:
                raise LdContextNotAvailable(f"the @context is made of more than {self._limits.documents_max} others")
            urls = sorted(wanted)
            found = await asyncio.gather(*map(self._document, urls))
            documents.update(zip(urls, found, strict=True))
            wanted = {inner for url, document in zip(urls, found, strict=True) for inner in referenced_urls(document, url)}
            wanted -= documents.keys()
        return documents

    async def _document(self, url: str) -> Any:
        if not is_uri(url):  # it would go into headers as it is
            raise LdContextNotAvailable(f"the @context {url[:200]!r} is not a URL")
        kept = self._find_url(url)
        if kept is not None:
            return kept.document
        document = await self._from_outside(url)
        if self._find_url(url) is None:  # nobody else has been faster
            self._make_room(self._by_url.values())
            kept = KeptContext(local_id=_local_id(url), url=url, kind="Cached", created_at=now_text(), document=document)
            self._remember(kept)
            self._write_later(PutDocument(DOCUMENT_KIND, kept.local_id, _encode(kept)))
        return document

    async def _from_outside(self, url: str) -> Any:
        return self._from_file(url) if url in self._files else await self._fetcher.fetch(url)

    def _from_file(self, url: str) -> Any:
        try:
            data = self._files[url].read_bytes()
        except OSError as error:
            raise LdContextNotAvailable(f"the file for the @context {url!r} cannot be read: {error.strerror}") from None
        return decoded(data, url)

    def _find_url(self, url: str) -> KeptContext | None:
        kept = self._by_url.get(url)
        if kept is None and "/jsonldContexts/" in url:
            try:
                place = urlsplit(url)
            except ValueError:
                return None
            found = _HOSTED_PATH.fullmatch(place.path)
            if found and place.scheme in {"http", "https"} and place.netloc:  # by whatever name this node is reached
                kept = self._kept.get(found[1])
        return kept

    def _new(self, kind: Kind, context: Any, local_id: str) -> KeptContext:
        url = self._place(local_id)
        return KeptContext(local_id=local_id, url=url, kind=kind, created_at=now_text(), document={"@context": context})

    def _place(self, local_id: str) -> str:
        return f"{self.base_url}/ngsi-ld/v1/jsonldContexts/{local_id}"

    def _own_place(self, source: Any) -> str | None:
        """Where a context that is more than one URL is served from; none for what has a URL already."""
        parts = [part for part in (source if isinstance(source, list) else [source]) if not is_empty(part)]
        return None if len(parts) == 1 and isinstance(parts[0], str) else self._place(_local_id(context_key(parts)))

    def _remember(self, kept: KeptContext) -> None:
        self._kept[kept.local_id] = kept
        if kept.kind == "Cached":
            self._by_url[kept.url] = kept

    def _forget(self, kept: KeptContext) -> None:
        self._kept.pop(kept.local_id, None)
        self._by_url.pop(kept.url, None)
        self._drop_compiled(kept.url)

    def _make_room(self, candidates: Collection[KeptContext]) -> None:
        if len(candidates) >= self._limits.documents_max:
            oldest = min(candidates, key=lambda kept: kept.last_used_s or datetime.fromisoformat(kept.created_at).timestamp())
            self._forget(oldest)
            self._write_later(DeleteDocument(DOCUMENT_KIND, oldest.local_id))

    def _write_later(self, write: Write) -> None:
        """Nobody waits for it, and nothing is lost if it fails: a cached context can be fetched again."""
        with contextlib.suppress(TooManyPending):
            self._store.submit(write).add_done_callback(_no_matter)

    def _keep_compiled(self, source: Any, compiled: _Compiled) -> None:
        while len(self._compiled) >= self._limits.documents_max:
            self._compiled.pop(next(iter(self._compiled)))
        self._compiled[source if type(source) is str else _encode(source)] = compiled

    def _drop_compiled(self, url: str) -> None:
        """Compile anew what is made of the context at a URL; by whatever name of this node it is called there."""
        path = url.removeprefix(self.base_url)
        self._compiled = {
            key: item
            for key, item in self._compiled.items()
            if item.context.link_url != url and not any(used.endswith(path) for used in item.urls)
        }


def _local_id(text: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


def _no_matter(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()


def _check_shape(context: Any) -> None:
    """Whether it can be a context, as far as one sees without fetching anything."""
    for part in context if isinstance(context, list) else [context]:
        if isinstance(part, str):
            if not is_uri(part):
                raise BadRequestData(f"{part[:200]!r} in the @context is not a URL")
        elif not (isinstance(part, dict) and "@import" in part):
            compile_context([part] if isinstance(part, list) else part)
