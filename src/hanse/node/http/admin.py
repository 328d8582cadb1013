"""/hanse/v1: what operators need: tenants, and a backup of the running node; the log of changes is in `log`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

from hanse.node.http import log
from hanse.node.http.answers import JSON
from hanse.node.http.call import Call, Endpoint, Path, native

if TYPE_CHECKING:
    from starlette.types import ASGIApp

SQLITE: Final = "application/vnd.sqlite3"


# --- tenants and backup -----------------------------------------------------------------------------------------------


async def tenants(call: Call) -> ASGIApp:
    return call.answer(sorted(call.node.tenants))


async def backup(call: Call) -> ASGIApp:
    """A copy of the tenant's store, made while the node goes on; it is the body of the answer."""
    from starlette.background import BackgroundTask
    from starlette.responses import FileResponse

    store = call.tenant.store
    folder = FilePath(tempfile.mkdtemp(prefix="backup-", dir=call.node.directory))
    try:
        await store.backup(folder / store.path.name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    cleaning = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(folder / store.path.name, media_type=SQLITE, filename=store.path.name, background=cleaning)


_ONE: Final = (JSON,)

paths: list[Path] = [
    *log.paths,
    native("/tenants", GET=Endpoint(tenants, offers=_ONE)),
    native("/backup", POST=Endpoint(backup, offers=(SQLITE,), media_types=())),
]
