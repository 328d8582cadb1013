"""Hanse itself for workers that do not have it: a zip of the package, made here and sent with the session.

`ship(spark, master, folder)` does nothing on one machine. What Hanse needs (msgspec, shapely, pyarrow, pandas) must be where
the workers are, in the Python that `PYSPARK_PYTHON` names: they are no pure Python, and cannot be sent as a zip.
"""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "hanse-package.zip"
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


def ship(spark: SparkSession, master: str, folder: Path) -> None:
    if master.startswith("local"):
        return
    made = str(package(folder))
    if master.startswith("sc://"):
        spark.addArtifacts(made, pyfile=True)
    else:
        spark.sparkContext.addPyFile(made)
