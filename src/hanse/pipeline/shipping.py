"""Hanse itself for workers that do not have it: a zip of the package, made here, sent with the session, unpacked by the workers.

- `settings(master, folder, given)`: Spark's settings for that, before a session is made; nothing on one machine, and nothing for
  a server of Spark Connect: its streams read and write in processes that see nothing of what a session brings along, so that
  Hanse has to be in its Python.

What Hanse needs (msgspec, shapely, pyarrow, pandas) must be in the workers' Python, which `PYSPARK_PYTHON` names. It is
unpacked, and not only put on the path, because a package reads its own files by their names.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "hanse-package"  # in the working folder of each worker
NAME: Final = f"{FOLDER}.zip"
ARCHIVES: Final = "spark.archives"
PYTHON_PATH: Final = "spark.executorEnv.PYTHONPATH"
_LEFT_OUT: Final = frozenset({"__pycache__"})
_SAME_TIME: Final = (1980, 1, 1, 0, 0, 0)  # so that the same package is the same zip


def package(folder: Path) -> Path:
    """The zip, made anew."""
    root = Path(str(resources.files("hanse")))
    made = folder / NAME
    made.parent.mkdir(parents=True, exist_ok=True)
    partial = made.with_name(f".{NAME}")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(root.rglob("*")):
            if file.is_file() and not _LEFT_OUT & set(file.parts):
                entry = zipfile.ZipInfo(f"hanse/{file.relative_to(root).as_posix()}", _SAME_TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                out.writestr(entry, file.read_bytes())
    partial.replace(made)
    return made


def settings(master: str, folder: Path, given: Mapping[str, Any]) -> dict[str, str]:
    """Beside what the user has set of the same kind."""
    if _is_here(master) or master.startswith("sc://"):
        return {}
    made = package(folder).resolve()
    _put_on_path(str(made))
    archives = [str(given[ARCHIVES])] if given.get(ARCHIVES) else []
    paths = [str(given[PYTHON_PATH])] if given.get(PYTHON_PATH) else []
    return {ARCHIVES: ",".join([*archives, f"{made}#{FOLDER}"]), PYTHON_PATH: ":".join([FOLDER, *paths])}


def _put_on_path(path: str) -> None:
    """For the workers beside the driver, which plan reads and writes: they have its environment, and unpack nothing."""
    known = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if path not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([path, *known])


def _is_here(master: str) -> bool:
    return master == "local" or master.startswith("local[")
