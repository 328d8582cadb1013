"""A real mouse, for lists that open only to one."""

from __future__ import annotations

import json

from tests.browser import Browser
from tests.dashboard.hands import at

_MIDDLE = """new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
    const box = %s.getBoundingClientRect(); done([box.x + box.width / 2, box.y + box.height / 2]) })))"""


async def click(page: Browser, element: str) -> None:
    """In the middle of an element of the page."""
    await page.until(f"!!{element}?.offsetParent")
    await page.value(f"{element}.scrollIntoView({{block: 'center'}})")
    place: list[float] = []
    while place != (now := await page.value(_MIDDLE % element)):  # a dialog that opens moves
        place = now
    for what in ("mousePressed", "mouseReleased"):
        await page.call("Input.dispatchMouseEvent", type=what, x=place[0], y=place[1], button="left", clickCount=1)


async def pick(page: Browser, testid: str, words: str) -> None:
    """One of the choices of a field, by the whole of what it says."""
    await click(page, at(testid))
    option = f"[...document.querySelectorAll('.q-menu .q-item')].find(i => i.innerText.trim() === {json.dumps(words)})"
    await page.until(f"!!{option}")
    await page.value(f"{option}.click()")
    await page.until("!document.querySelector('.q-menu')")
