"""Someone who is told by HTTP, in a thread of this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

WAIT_S = 60.0


@contextmanager
def receiver() -> Iterator[tuple[str, Queue[Any]]]:
    """Its URL, and what it was told."""
    got: Queue[Any] = Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join(WAIT_S)
