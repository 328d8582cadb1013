"""`hanse backup`: a copy of all that a node keeps, from the running node or from its folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from hanse.cli.get import Tenant
from hanse.model.errors import InvalidInput

app = typer.Typer()

PATH = "/hanse/v1/backup"
STORES = "*.sqlite"
DEFAULT_STORE = "default.sqlite"


@app.command()
def backup(
    source: Annotated[str, typer.Argument(metavar="URL|DIR", help="A running node, or its data folder.", show_default=False)],
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file for one tenant, or a folder for all of them.", show_default=False)
    ],
    tenant: Tenant = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Copy a node's store, while it runs. A folder with copies can be served: `hanse serve --data FOLDER`.

    Example: hanse backup http://127.0.0.1:9090 backup.sqlite
    """
    from hanse.cli.output import print_json

    is_folder = target.is_dir() or target.suffix == ""
    if not is_folder and target.exists():
        raise InvalidInput("it exists already; choose another name, or remove it", place=str(target))
    try:
        (target if is_folder else target.parent).mkdir(parents=True, exist_ok=True)
        if "://" in source:
            written = _from_node(source, target, is_folder, tenant)
        else:
            written = _from_folder(Path(source), target, is_folder, tenant)
    except OSError as error:
        raise InvalidInput(f"it cannot be written ({error.strerror})", place=str(error.filename or target)) from error
    sizes = {str(path): path.stat().st_size for path in written}
    if as_json:
        print_json({"files": sizes})
    else:
        for path, size in sizes.items():
            typer.echo(f"written: {path}, {size:,} bytes")


def _from_node(url: str, target: Path, is_folder: bool, tenant: str) -> list[Path]:
    import hanse

    with hanse.connect_sync(url, tenant=tenant) as node:
        tenants = node.request("GET", "/hanse/v1/tenants").data if is_folder else [tenant]
    written = []
    for name in tenants:
        with hanse.connect_sync(url, tenant=name, timeout_s=3600) as node:
            reply = node.request("POST", PATH, headers={"Accept": "*/*"})
            written.append(_put(reply.data, target / store_name(name) if is_folder else target))
    return written


def _put(content: bytes, path: Path) -> Path:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    return partial.replace(path)


def _from_folder(folder: Path, target: Path, is_folder: bool, tenant: str) -> list[Path]:
    stores = sorted(folder.glob(STORES)) if is_folder else [folder / store_name(tenant)]
    if not stores or not stores[0].is_file():
        raise InvalidInput(
            "there is no store of a node there; give its URL, or the folder of `hanse serve --data`", place=str(folder)
        )
    return [_copy(store, target / store.name if is_folder else target) for store in stores]


def _copy(store: Path, path: Path) -> Path:
    if path.exists():
        raise InvalidInput("it exists already; choose another place", place=str(path))
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(partial)) as copied:
            source.backup(copied)
            if copied.execute("SELECT 1 FROM sqlite_master WHERE name = 'links'").fetchone():
                copied.execute("DELETE FROM links")  # a copy begins new sessions with other nodes: they have gone on meanwhile
                copied.commit()
    except sqlite3.Error as error:
        partial.unlink(missing_ok=True)
        raise InvalidInput(f"it cannot be copied ({error})", place=str(store)) from error
    return partial.replace(path)


def store_name(tenant: str) -> str:
    """As the store names its files."""
    from urllib.parse import quote

    return f"tenant-{quote(tenant, safe='')}.sqlite" if tenant else DEFAULT_STORE
