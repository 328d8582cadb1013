"""What a person does with a page: fill in fields, press buttons, and read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

from tests.browser import Browser

P = ParamSpec("P")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that awaits, for pytest, which does not."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def at(testid: str) -> str:
    return f"document.querySelector('[data-testid={testid}]')"


def button(words: str) -> str:
    """The first that can be seen and begins with these words; by what it says, or by its label."""
    said = "(b.getAttribute('aria-label') || b.querySelector('.block')?.innerText || b.innerText).toLowerCase()"
    return f"[...document.querySelectorAll('button')].find(b => b.offsetParent && {said}.startsWith({json.dumps(words.lower())}))"


async def press_button(page: Browser, words: str) -> None:
    await page.until(f"!!{button(words)} && !{button(words)}.disabled")
    await page.value(f"{button(words)}.click()")


async def take(page: Browser, field: str, words: str) -> None:
    """One of the suggestions below a field."""
    group = f"document.querySelector('[aria-label={json.dumps(f'Suggestions for {field}')}]')"
    found = f"[...{group}?.querySelectorAll('button') || []].find(b => b.innerText === {json.dumps(words)})"
    await page.until(f"!!{found}")
    await page.value(f"{found}.click()")


def _input(label: str) -> str:
    return f"[...document.querySelectorAll('input')].find(i => i.offsetParent && i.ariaLabel === {json.dumps(label)})"


async def holds(page: Browser, label: str, text: str) -> None:
    """Until a field has what somebody else puts there."""
    await page.until(f"{_input(label)}?.value === {json.dumps(text)}")


async def fill(page: Browser, label: str, text: str) -> None:
    """As one types: what was in the field goes."""
    field = _input(label)
    await page.until(f"!!{field}")
    await page.value(f"{field}.focus(); {field}.select()")
    await page.call("Input.insertText", text=text)
    await page.until(f"{field}.value === {json.dumps(text)}")


async def choose(page: Browser, testid: str, words: str) -> None:
    """One of a list that opens; the first whose words contain these."""
    option = f"[...document.querySelectorAll('.q-menu .q-item')].find(i => i.innerText.includes({json.dumps(words)}))"
    await page.until(f"!!{at(testid)}")
    await page.value(f"({at(testid)}.closest('.q-field') || {at(testid)}).querySelector('.q-field__native, input').click()")
    await page.until(f"!!{option}")
    await page.value(f"{option}.click()")


async def says(page: Browser, testid: str, *words: str) -> None:
    """Until that part of the page says all of it."""
    for said in words:
        await page.until(f"({at(testid)}?.innerText || '').includes({json.dumps(said)})")


async def things_on_map(page: Browser) -> dict[str, Any]:
    """What the map was given to draw."""
    found: dict[str, Any] = await page.value(
        "JSON.parse(JSON.stringify(getElement(parseInt(document.querySelector('.hanse-map').id.slice(1))).things))"
    )
    return found
