"""Where a notification says that its context is, it is, for as long as there is a subscription that says so."""

from __future__ import annotations

from typing import Any

import aiohttp
from tests.serving import serving, settings_with

ROOM = {"id": "urn:ngsi-ld:Room:1", "type": "Room", "warmth": {"type": "Property", "value": 20}}


def subscription(number: int) -> dict[str, Any]:
    return {
        "id": f"urn:ngsi-ld:Subscription:{number}",
        "type": "Subscription",
        "entities": [{"type": "Room"}],
        "notification": {"endpoint": {"uri": "urn:hanse:stream", "accept": "application/json"}},
        "@context": [{"warmth": "https://rooms.example/warmth"}],
    }


def test_the_context_of_a_subscription_is_served_while_it_lives() -> None:
    import asyncio

    async def work(base: str) -> None:
        async with aiohttp.ClientSession(base_url=base) as session:

            async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
                headers = {"Content-Type": "application/ld+json"} if body is not None else {}
                async with session.request(method, f"/ngsi-ld/v1{path}", json=body, headers=headers) as answer:
                    return answer.status, await answer.json() if answer.content_type == "application/json" else None

            assert (await ask("POST", "/subscriptions", subscription(1)))[0] == 201
            _, shown = await ask("GET", "/subscriptions/urn:ngsi-ld:Subscription:1")
            place = shown["jsonldContext"].partition("/ngsi-ld/v1")[2]
            assert (await ask("GET", place))[0] == 200
            for number in range(8):  # more than are kept
                inline = ROOM | {"id": f"urn:ngsi-ld:Room:{number}", "@context": [{"warmth": f"https://{number}.example/w"}]}
                assert (await ask("POST", "/entities", inline))[0] == 201
            assert (await ask("GET", place))[0] == 200
            assert (await ask("DELETE", "/subscriptions/urn:ngsi-ld:Subscription:1"))[0] == 204
            for number in range(8, 16):
                inline = ROOM | {"id": f"urn:ngsi-ld:Room:{number}", "@context": [{"warmth": f"https://{number}.example/w"}]}
                assert (await ask("POST", "/entities", inline))[0] == 201
            assert (await ask("GET", place))[0] == 404

    with serving(settings_with(context_fetch={"documents_max": 4})) as base:
        asyncio.run(work(base))
