"""Tables of the lake in other formats: Delta, Iceberg, or whatever else Spark can write a stream to.

Such a table is the folder `<table>/<format>`. It is written and read through Spark, by the name of the format; which of its files
count, and how they are kept in order, is the format's own affair. The jars of Delta and Iceberg do not come with Spark: they must
be on its class path (`spark.jars.packages`), with the settings that their pages name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hanse.model import InvalidInput
from hanse.pipeline.lake_files import CHECKPOINTS, DATA, INCOMING, VERSIONS

PARQUET: Final = "parquet"  # the lake's own, in INCOMING, DATA and VERSIONS
JARS: Final = {
    "delta": "io.delta:delta-spark_2.13 in spark.jars.packages",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime in spark.jars.packages",
}
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")
_OWN: Final = frozenset({INCOMING, DATA, VERSIONS})
_MISSING: Final = ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException", "NoClassDefFoundError")


def checked_format(name: str) -> str:
    if not _NAME.fullmatch(name) or name in _OWN:
        raise InvalidInput(f"a format is a name that Spark knows, such as parquet, delta or iceberg; {name!r} is none")
    return name


def format_of(table: Path) -> str:
    """The format of a table that is there, by its folder."""
    if not table.is_dir():
        return ""
    found = sorted(path.name for path in table.iterdir() if path.is_dir() and _NAME.fullmatch(path.name))
    others = [name for name in found if name not in _OWN]
    return PARQUET if _OWN.intersection(found) else others[0] if others else ""


def other_tables(lake: Path) -> dict[str, str]:
    """The tables that are not in the lake's own format, and their formats."""
    folders = (folder for folder in sorted(lake.iterdir()) if folder.is_dir() and folder.name != CHECKPOINTS)
    formats = {folder.name: format_of(folder) for folder in folders}
    return {name: kind for name, kind in formats.items() if kind not in ("", PARQUET)}


def check_same(table: Path, wanted: str) -> None:
    """Raises InvalidInput if a table is there in another format."""
    if (there := format_of(table)) not in ("", wanted):
        raise InvalidInput(f"{table} is there as {there}; go on with that format, or write another table as {wanted}")


def explained(error: Exception, name: str) -> Exception:
    """In words, if Spark does not know a format; else the same."""
    if not any(sign in str(error) for sign in _MISSING):
        return error
    needed = f"it needs {JARS[name]}, and the settings that its page names" if name in JARS else "is it written as Spark has it?"
    return InvalidInput(f"Spark does not know the format {name}: {needed}")


def not_ours(table: str, name: str) -> InvalidInput:
    return InvalidInput(f"the table {table} is kept as {name}, which is kept in order by its own means, not by hanse lake")
