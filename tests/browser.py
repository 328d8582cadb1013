"""A real Chromium without a window, driven by its own protocol: what a user sees, presses and is told.

async with Browser() as page:
    await page.open(url)
    await page.until("document.title === 'here'")
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

import aiohttp

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
WAIT_S = 60.0
LOOK_S = 0.05
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]


class Browser:
    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self._size = width, height
        self._folder = Path(tempfile.mkdtemp(prefix="chromium-"))
        self._next = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.requested: list[str] = []  # every address that the page asked for
        self.errors: list[str] = []  # what went wrong in the page

    async def __aenter__(self) -> Self:
        assert CHROMIUM is not None
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={self._folder}", "--remote-debugging-port=0", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
        port = await self._port()
        self._http = aiohttp.ClientSession()
        async with self._http.get(f"http://127.0.0.1:{port}/json/list") as answer:
            target = next(target for target in await answer.json() if target["type"] == "page")
        self._socket = await self._http.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
        self._reading = asyncio.create_task(self._read())
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")
        width, height = self._size
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.close()
        await self._http.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _port(self) -> int:
        said = self._folder / "DevToolsActivePort"
        async with asyncio.timeout(WAIT_S):  # a file is all that it says
            while not (said.exists() and "\n" in said.read_text()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return int(said.read_text().split()[0])

    async def _read(self) -> None:
        async for message in self._socket:
            data = message.json()
            if "id" in data:
                self._answers.pop(data["id"]).set_result(data)
            elif data["method"] == "Network.requestWillBeSent":
                self.requested.append(data["params"]["request"]["url"])
            elif data["method"] == "Runtime.exceptionThrown":
                self.errors.append(str(data["params"]["exceptionDetails"]))
            elif data["method"] == "Log.entryAdded" and data["params"]["entry"]["level"] == "error":
                self.errors.append(str(data["params"]["entry"]))

    async def call(self, method: str, **params: Any) -> Any:
        self._next += 1
        answer = self._answers[self._next] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._next, "method": method, "params": params})
        async with asyncio.timeout(WAIT_S):
            said = await answer
        assert "error" not in said, said
        return said["result"]

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def value(self, expression: str) -> Any:
        said = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until it holds in the page. To ask once a frame would make it draw frames, which is most of its work."""
        async with asyncio.timeout(WAIT_S):
            while not await self.value(expression):  # noqa: ASYNC110 - a page tells of nothing by itself
                await asyncio.sleep(LOOK_S)

    async def press(self, key: str) -> None:
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39}
        text = {"text": "\r"} if key == "Enter" else {}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def scheme(self, name: str) -> None:
        """Prefer light or dark."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    async def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        shot = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))  # noqa: ASYNC240
