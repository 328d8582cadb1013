"""Subscriptions and dead letters as a client of the API sees them."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from tests.asking import asking
from tests.serving import serving, settings_with

HEADERS = {"Content-Type": "application/json"}


def body(uri: str, id_: str = "urn:s:1", **members: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "type": "Subscription",
        "entities": [{"type": "Building"}],
        "notification": {"endpoint": {"uri": uri}},
    } | members


def test_the_life_of_a_subscription() -> None:
    async def test(url: str) -> None:
        async with asking(url + "/ngsi-ld/v1/") as http:
            for n in range(3):
                made = await http.post("subscriptions", json=body("http://127.0.0.1:9/n", f"urn:s:{n}"))
                assert (made.status, made.headers["Location"]) == (201, f"/ngsi-ld/v1/subscriptions/urn:s:{n}")
            again = await http.post("subscriptions", json=body("http://127.0.0.1:9/n"))
            assert (again.status, (await again.json())["type"]) == (409, "https://uri.etsi.org/ngsi-ld/errors/AlreadyExists")
            page = await http.get("subscriptions?limit=1&offset=1&count=true")
            assert [item["id"] for item in await page.json()] == ["urn:s:1"]
            assert page.headers["NGSILD-Results-Count"] == "3"
            links = ",".join(page.headers.getall("Link"))
            assert "offset=0" in links
            assert "offset=2" in links
            patched = await http.patch("subscriptions/urn:s:1", json={"isActive": False, "description": "quiet"})
            assert patched.status == 204
            one = await (await http.get("subscriptions/urn:s:1?options=sysAttrs")).json()
            assert (one["status"], one["description"], one["isActive"]) == ("paused", "quiet", False)
            assert one["createdAt"] < one["modifiedAt"]
            assert (await http.delete("subscriptions/urn:s:1")).status == 204
            for gone in (http.get, http.delete):
                assert (await gone("subscriptions/urn:s:1")).status == 404
            assert (await http.patch("subscriptions/urn:s:1", json={})).status == 404
            assert (await http.get("subscriptions/nothing")).status == 400
            assert (await http.get("subscriptions?limit=x")).status == 400
            assert (await http.get("subscriptions?limit=0")).status == 400
            assert (await http.post("subscriptions", data="{", headers=HEADERS)).status == 400
            anonymous = body("http://127.0.0.1:9/n")
            del anonymous["id"]
            made = await http.post("subscriptions", json=anonymous)
            assert "urn:ngsi-ld:Subscription:" in made.headers["Location"]

    with serving() as url:
        asyncio.run(test(url))


def test_a_context_that_is_not_there_is_said_so() -> None:
    async def test(url: str) -> None:
        async with asking(url + "/ngsi-ld/v1/") as http:
            given = body("http://127.0.0.1:9/n", jsonldContext="http://127.0.0.1:9/context.jsonld")
            answer = await http.post("subscriptions", json=given)
            assert (answer.status, (await answer.json())["type"].rpartition("/")[2]) == (504, "LdContextNotAvailable")
            assert (await http.get("subscriptions/urn:s:1")).status == 404

    with serving() as url:
        asyncio.run(test(url))


def test_dead_letters_are_listed_shown_resent_and_removed() -> None:
    async def test(url: str) -> None:
        got: asyncio.Queue[Any] = asyncio.Queue()
        statuses = [400, 400]

        async def take(request: web.Request) -> web.Response:
            got.put_nowait(await request.json())
            return web.Response(status=statuses.pop(0) if statuses else 200)

        app = web.Application()
        app.router.add_post("/n", take)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with asking(url) as http:
            uri = f"http://127.0.0.1:{runner.addresses[0][1]}/n"
            await http.post("/ngsi-ld/v1/subscriptions", json=body(uri))
            for n in range(2):
                await http.post("/ngsi-ld/v1/entities", json={"id": f"urn:b:{n}", "type": "Building", "level": n})
                await got.get()
            async with asyncio.timeout(20):
                letters: list[dict[str, Any]] = []
                while len(letters) < 2:
                    letters = await (await http.get("/hanse/v1/dead-letters")).json()
            assert [(letter["reason"], letter["endpoint"]) for letter in letters] == [("the endpoint answers 400", uri)] * 2
            after = await (await http.get(f"/hanse/v1/dead-letters?limit=1&after={letters[0]['id']}")).json()
            assert [letter["id"] for letter in after] == [letters[1]["id"]]
            one = await (await http.get(f"/hanse/v1/dead-letters/{letters[0]['id']}")).json()
            assert one["body"]["data"][0]["id"] == "urn:b:0"
            assert (await http.post(f"/hanse/v1/dead-letters/{letters[0]['id']}/resend")).status == 202
            assert (await asyncio.wait_for(got.get(), 20))["data"][0]["id"] == "urn:b:0"
            assert (await http.delete(f"/hanse/v1/dead-letters/{letters[1]['id']}")).status == 204
            assert await (await http.get("/hanse/v1/dead-letters")).json() == []
            assert (await http.get(f"/hanse/v1/dead-letters/{letters[1]['id']}")).status == 404
            assert (await http.delete("/hanse/v1/dead-letters/x")).status == 400
        await runner.cleanup()

    with serving(settings_with(notifications={"backoff_s": 0.01})) as url:
        asyncio.run(test(url))
