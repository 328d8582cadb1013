"""`hanse serve` as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

HANSE = [sys.executable, "-W", "error", "-m", "hanse"]


@contextmanager
def served(*arguments: object, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its URL, once it is ready; killed at the end, if it is still there."""
    command = [*HANSE, "serve", "--port", "0", "--no-mqtt", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
    ) as process:
        try:
            assert process.stdout is not None
            url = ""
            for line in process.stdout:
                if found := re.search(r"NGSI-LD +(http://\S+)/ngsi-ld/v1", line):
                    url = found[1]
                if line.startswith("Stop it"):
                    break
            yield process, url
        finally:
            process.kill()
