"""`hanse bench`: how fast a node is here, beside a bare HTTP server in the same run."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.get import Tenant
from hanse.model.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanse.cli.bench_steps import Figure

app = typer.Typer()

REQUESTS_MAX: Final = 100_000
CLIENTS_MAX: Final = 500
START_S_MAX: Final = 60.0


@app.command()
def bench(
    url: Annotated[
        str, typer.Argument(metavar="[URL]", help="A node; without one, a node of its own is started for it.", show_default=False)
    ] = "",
    requests: Annotated[int, typer.Option(help="How many of each kind.", min=10, max=REQUESTS_MAX)] = 1000,
    clients: Annotated[int, typer.Option(help="How many at a time.", min=1, max=CLIENTS_MAX)] = 20,
    tenant: Tenant = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Measure a node: entities and notifications a second, how long they take, and the ratio to a bare server on this machine.

    Entities of the type BenchProbe are made for it, and removed again. Only the ratios can be compared between machines.

    Example: hanse bench --requests 500
    """
    import uvloop

    from hanse.cli.bench_steps import Target, measure, node_at
    from hanse.cli.output import print_json

    with ExitStack() as stack:
        node = node_at(url or stack.enter_context(_own_node()), tenant)
        bare = Target(stack.enter_context(_bare_server()), "")
        figures = uvloop.run(measure(node, bare, requests=requests, clients=clients, tenant=tenant))
    if as_json:
        import msgspec

        shown = [{**msgspec.to_builtins(figure), "ratio": round(figure.ratio, 3)} for figure in figures]
        print_json({"url": url or None, "requests": requests, "clients": clients, "figures": shown})
    else:
        _table(figures, url, requests, clients)


def _table(figures: list[Figure], url: str, requests: int, clients: int) -> None:
    from rich.table import Table

    from hanse.cli.output import console

    where = url or "a node of its own, durable, in a folder for temporary files"
    table = Table(title=f"{where}: {requests:,} of each, {clients} clients", title_justify="left", show_edge=False)
    for heading in ("what", "node", "bare server", "ratio", "median ms", "p99 ms"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for one in figures:
        middle, late = (f"{value:.2f}" if value is not None else "" for value in (one.median_ms, one.p99_ms))
        digits = 2 if one.unit == "ms" else 0
        values = [f"{value:,.{digits}f} {one.unit}" for value in (one.value, one.bare)]
        table.add_row(one.name, *values, f"{one.ratio:.2f}", middle, late)
    console.print(table)


@contextmanager
def _own_node() -> Iterator[str]:
    import tempfile

    from hanse.model.ports import free_port

    with tempfile.TemporaryDirectory(prefix="hanse-bench-") as folder:
        port = free_port()
        command = ["-m", "hanse", "serve", "--port", str(port), "--no-mqtt", "--data", str(Path(folder) / "data")]
        with _running(command, port, "/readyz"):
            yield f"http://127.0.0.1:{port}"


@contextmanager
def _bare_server() -> Iterator[str]:
    from hanse.model.ports import free_port

    port = free_port()
    with _running(["-m", "hanse.cli.bench_bare", str(port)], port, "/"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _running(arguments: list[str], port: int, path: str) -> Iterator[None]:
    """A process of this program, from when it answers until the block ends."""
    with subprocess.Popen(  # noqa: S603  our own program
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        try:
            _await(process, port, path)
            yield
        finally:
            process.terminate()


def _await(process: subprocess.Popen[bytes], port: int, path: str) -> None:
    import time
    import urllib.error
    import urllib.request

    until = time.monotonic() + START_S_MAX
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
                return
        except urllib.error.HTTPError as error:
            with error:  # a node that is not ready yet says so; of the bare server an answer is all that is asked
                if path == "/":
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise InvalidInput("a server for the measurement does not start here; try `hanse serve`, which says why")
