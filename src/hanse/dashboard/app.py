"""The pages together: `run(shown)` serves them until it is stopped."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from msgspec import Struct
from nicegui import app, ui
from nicegui import run as processes

from hanse.dashboard.frame import PLACES, frame
from hanse.dashboard.watching import Watch

STATIC: Final = Path(__file__).parent / "data"
_MODULES: Final = {place.path: place.path.strip("/") or "start" for place in PLACES}


class Shown(Struct, frozen=True):
    """What the page is about."""

    urls: tuple[str, ...]
    token: str = ""
    tenant: str = ""
    pipelines: tuple[str, ...] = ()  # folders or files of pipelines, as for `hanse pipeline status`
    lake: str = ""  # a folder
    folder: str = "out/dashboard"  # where new topologies and results of the simulator are put


def run(shown: Shown, *, host: str = "127.0.0.1", port: int = 8080, is_opened: bool = True) -> None:
    """Serve the pages. `/readyz` answers once every node has been asked."""
    processes.process_pool_start_method = "spawn"  # a fork of a process with threads may hang
    watch = Watch(shown.urls, shown.token, shown.tenant)
    app.on_startup(watch.__aenter__)
    app.on_shutdown(watch.__aexit__)
    app.add_static_files("/static", STATIC)
    for place in PLACES:
        _page(place.path, watch, shown)

    @app.get("/readyz")
    async def ready() -> dict[str, int]:
        await watch.first()
        return {"nodes": sum(seen.is_there for seen in watch.seen)}

    ui.run(host=host, port=port, title="Hanse", reload=False, show=is_opened, dark=None, show_welcome_message=False, favicon="⚓")


def _page(path: str, watch: Watch, shown: Shown) -> None:
    view = import_module(f"hanse.dashboard.views.{_MODULES[path]}")

    @ui.page(path)
    async def page() -> None:
        await watch.first()
        with frame(watch, path):
            await view.show(watch, shown)
