"""Contexts of a node: fetched once, kept, hosted, reloaded; and never a reason to hang or to fall over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from hanse.ngsild.contexts import CORE, CORE_URL
from hanse.ngsild.errors import BadRequestData, LdContextNotAvailable, NgsiLdError, ResourceNotFound
from hanse.node.contexts import ContextService
from hanse.node.settings import ContextSection, NodeSettings
from hanse.node.store import Store

TERMS = {"@context": {"speed": "https://cars.example/speed"}}


class Site:
    """A web server with documents, which counts how often it is asked."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {"/terms.jsonld": TERMS}
        self.asked: list[str] = []
        self.url = ""
        self.gate: asyncio.Event | None = None

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.gate is not None:
            await self.gate.wait()
        if request.path == "/page":
            return web.Response(
                text="<html>",
                content_type="text/html",
                headers={"Link": '</terms.jsonld>; rel="alternate"; type="application/ld+json"'},
            )
        document = self.documents.get(request.path)
        if document is None:
            return web.Response(status=404)
        body = document if isinstance(document, bytes) else msgspec.json.encode(document)
        return web.Response(body=body, content_type="application/ld+json")


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    it = Site()
    app = web.Application()
    app.router.add_get("/{tail:.*}", it.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    it.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield it
    finally:
        await runner.cleanup()


@asynccontextmanager
async def service(directory: Path | None = None, **settings: Any) -> AsyncIterator[ContextService]:
    store = Store.open(directory)
    contexts = ContextService(store, NodeSettings(**settings))
    await contexts.start()
    try:
        yield contexts
    finally:
        await contexts.stop()
        await store.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_context_is_fetched_once_and_then_at_hand() -> None:
    async def test() -> None:
        async with site() as web_site, service() as contexts:
            url = web_site.url + "/terms.jsonld"
            assert contexts.resolve_now(url) is None
            first, second = await asyncio.gather(contexts.resolve(url), contexts.resolve([url, CORE_URL]))
            assert first.expand_term("speed") == second.expand_term("speed") == "https://cars.example/speed"
            assert contexts.resolve_now(url) is first
            assert web_site.asked == ["/terms.jsonld"]

    run(test)


def test_what_was_fetched_survives_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with site() as web_site:
            url = web_site.url + "/terms.jsonld"
            async with service(tmp_path) as contexts:
                await contexts.resolve(url)
                hosted = await contexts.host({"a": "https://a.example/a"})
            async with service(tmp_path) as contexts:
                assert (await contexts.resolve(url)).expand_term("speed") == "https://cars.example/speed"
                assert contexts.get(url).hits == 2
                assert contexts.get(hosted.local_id).document == {"@context": {"a": "https://a.example/a"}}
            assert len(web_site.asked) == 1

    run(test)


def test_a_file_stands_for_a_url(tmp_path: Path) -> None:
    async def test() -> None:
        file = tmp_path / "terms.jsonld"
        file.write_bytes(msgspec.json.encode(TERMS))
        url = "https://nowhere.example/terms.jsonld"
        async with service(contexts={url: str(file)}, context_fetch=ContextSection(fetch=False)) as contexts:
            assert (await contexts.resolve(url)).expand_term("speed") == "https://cars.example/speed"
            assert [kept.url for kept in contexts.list("Cached")] == [CORE_URL, url]
            with pytest.raises(LdContextNotAvailable):
                await contexts.resolve("https://elsewhere.example/")

    run(test)


def test_a_page_for_people_says_where_the_context_is() -> None:
    async def test() -> None:
        async with site() as web_site, service() as contexts:
            assert (await contexts.resolve(web_site.url + "/page")).expand_term("speed") == "https://cars.example/speed"

    run(test)


@pytest.mark.parametrize(
    "source", ["/ngsi-ld/v1/jsonldContexts/x", "ftp://a.example/", "http://127.0.0.1:9/", "http://[", "x y", "urn:a:b"]
)
def test_what_cannot_be_fetched(source: str) -> None:
    async def test() -> None:
        async with service() as contexts:
            with pytest.raises(LdContextNotAvailable):
                await contexts.resolve(source)

    run(test)


def test_limits_of_size_time_and_depth() -> None:
    async def test() -> None:
        limits = ContextSection(bytes_max=1000, timeout_s=0.2, depth_max=2)
        async with site() as web_site, service(context_fetch=limits) as contexts:
            web_site.documents |= {
                "/large": {"@context": {"a": "https://a.example/" + "a" * 1000}},
                "/1": {"@context": "2"},
                "/2": {"@context": "3"},
                "/3": {"@context": {}},
                "/text": b"no JSON",
                "/list": [],
            }
            for path in ("/large", "/1", "/missing"):
                with pytest.raises(LdContextNotAvailable):
                    await contexts.resolve(web_site.url + path)
            for path in ("/text", "/list"):  # it is there, but it is no context
                with pytest.raises(BadRequestData):
                    await contexts.resolve(web_site.url + path)
            web_site.gate = asyncio.Event()
            with pytest.raises(LdContextNotAvailable, match="did not come"):
                await contexts.resolve(web_site.url + "/terms.jsonld")
            web_site.gate.set()

    run(test)


def test_the_least_used_is_forgotten() -> None:
    async def test() -> None:
        async with site() as web_site, service(context_fetch=ContextSection(documents_max=2)) as contexts:
            for name in ("/a", "/b", "/c"):
                web_site.documents[name] = TERMS
                await contexts.resolve(web_site.url + name)
            assert [kept.url for kept in contexts.list("Cached")] == [CORE_URL, web_site.url + "/b", web_site.url + "/c"]

    run(test)


def test_a_hosted_context_is_used_by_its_url_and_counted() -> None:
    async def test() -> None:
        async with service() as contexts:
            kept = await contexts.host({"a": "https://a.example/a"})
            assert kept.details()["numberOfHits"] == 0
            url = f"http://some.name:1234/ngsi-ld/v1/jsonldContexts/{kept.local_id}"
            for _ in range(2):
                context = contexts.resolve_now(url) or await contexts.resolve(url)
                assert context.expand_term("a") == "https://a.example/a"
            assert kept.details()["numberOfHits"] == 2
            assert contexts.get(kept.url) is kept
            await contexts.delete(kept.local_id)
            assert contexts.resolve_now(url) is None
            with pytest.raises(ResourceNotFound):
                contexts.get(kept.local_id)
            with pytest.raises(ResourceNotFound):
                await contexts.delete(kept.local_id)

    run(test)


@pytest.mark.parametrize("source", [42, True, ["https://a.example/", 7], [[]], {"a": 1}, "no url"])
def test_only_a_context_can_be_hosted(source: Any) -> None:
    async def test() -> None:
        async with service() as contexts:
            with pytest.raises(BadRequestData):
                await contexts.host(source)
            assert list(contexts.list("Hosted")) == []

    run(test)


def test_a_context_without_a_url_gets_one() -> None:
    async def test() -> None:
        async with site() as web_site, service() as contexts:
            url = web_site.url + "/terms.jsonld"
            assert await contexts.url_of(CORE) == CORE_URL
            assert await contexts.url_of(await contexts.resolve([url, CORE_URL])) == url
            inline = await contexts.resolve([url, {"a": "https://a.example/a"}])
            implicit = await contexts.url_of(inline)
            assert await contexts.url_of(inline) == implicit
            (kept,) = contexts.list("ImplicitlyCreated")
            assert kept.url == implicit
            again = await contexts.resolve(implicit)
            assert (again.expand_term("a"), again.expand_term("speed")) == ("https://a.example/a", "https://cars.example/speed")
            with pytest.raises(BadRequestData):
                await contexts.reload(kept.local_id)
            await contexts.delete(kept.local_id)
            assert contexts.resolve_now([url, {"a": "https://a.example/a"}]) is None

    run(test)


def test_places_that_nothing_refers_to_make_room_for_others() -> None:
    async def test() -> None:
        async with service(context_fetch=ContextSection(documents_max=2)) as contexts:
            first = await contexts.resolve({"a": "https://a.example/a"})
            await contexts.url_of(first)
            others = [await contexts.resolve({"a": f"https://a.example/{number}"}) for number in range(5)]
            assert [kept.url for kept in contexts.list("ImplicitlyCreated")] == [
                context.link_url for context in (first, *others[-2:])
            ]

    run(test)


def test_reload_takes_the_new_one_or_keeps_the_old_one() -> None:
    async def test() -> None:
        async with service() as contexts:
            async with site() as web_site:
                url = web_site.url + "/terms.jsonld"
                await contexts.resolve(url)
                web_site.documents["/terms.jsonld"] = {"@context": {"speed": "https://new.example/speed"}}
                await contexts.reload(url)
                assert (await contexts.resolve(url)).expand_term("speed") == "https://new.example/speed"
            with pytest.raises(LdContextNotAvailable):
                await contexts.reload(url)
            assert (await contexts.resolve(url)).expand_term("speed") == "https://new.example/speed"
            await contexts.delete(url)
            with pytest.raises(LdContextNotAvailable):
                await contexts.resolve(url)

    run(test)


def test_the_core_context_stays() -> None:
    async def test() -> None:
        async with service() as contexts:
            with pytest.raises(BadRequestData):
                await contexts.delete("https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context-v1.6.jsonld")
            await contexts.reload(CORE_URL)
            assert contexts.get(CORE_URL).kind == "Cached"
            assert await contexts.resolve([CORE_URL]) is CORE
            with pytest.raises(BadRequestData):
                await contexts.reload("wrong_id")

    run(test)


@pytest.mark.parametrize(
    "source", [1, None, [], {}, [None], {"@context": 5}, ["http://["], float("nan"), {"@import": "http://["}]
)
def test_anything_as_a_context(source: Any) -> None:
    async def test() -> None:
        async with service(context_fetch=ContextSection(fetch=False)) as contexts:
            with contextlib.suppress(NgsiLdError):
                await contexts.resolve(source)

    run(test)


def test_bounds_of_what_clients_bring() -> None:
    async def test() -> None:
        async with service(context_fetch=ContextSection(documents_max=2, bytes_max=100)) as contexts:
            for _ in range(2):
                await contexts.host({"a": "https://a.example/a"})
            with pytest.raises(BadRequestData, match="delete one"):
                await contexts.host({"a": "https://a.example/a"})
            with pytest.raises(BadRequestData, match="larger"):
                await contexts.resolve({"a": "https://a.example/" + "a" * 100})
            assert contexts.bounds()["contexts_hosted"] == (2, 2)

    run(test)
