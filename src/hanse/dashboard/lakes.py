"""A lake for people: its tables, and a few rows of one. Reads the files; no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hanse.dashboard.pipelines import EXTRA
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.pipeline.lake_files import Table

ROWS: Final = 20
CELL_MAX: Final = 200  # characters
COLUMNS_MAX: Final = 30
MIB: Final = 2**20


class Preview(NamedTuple):
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    says: str


def summaries(folder: str) -> list[dict[str, Any]]:
    """A row for each table, for people. Raises InvalidInput."""
    return [_row(table) for table in _tables(folder)]


def _row(table: Table) -> dict[str, Any]:
    try:
        found = table.summary()
    except (OSError, ValueError) as error:  # a file that is no Parquet, or that has just gone
        return {"table": table.name, "records": "–", "files": "–", "size": "–", "days": f"cannot be read: {error}", "types": ""}
    days = (
        "no days yet"
        if found["from"] is None
        else found["from"]
        if found["from"] == found["until"]
        else f"{found['from']} to {found['until']}"
    )
    return {
        "table": found["table"],
        "records": f"{found['records']:,}",
        "files": f"{found['files']:,}" + (f" ({found['small']:,} small)" if found["small"] else ""),
        "size": f"{found['bytes'] / MIB:,.1f} MiB",
        "days": days,
        "types": ", ".join(found["types"]),
    }


def preview(folder: str, name: str, rows: int = ROWS) -> Preview:
    """Rows of a table, of the newest files first; no more is read than is shown. Raises InvalidInput."""
    table = next((table for table in _tables(folder) if table.name == name), None)
    if table is None:
        raise InvalidInput(f"there is no table {name!r} in {folder}")
    found: list[dict[str, Any]] = []
    files = sorted(table.visible(), key=lambda file: (file.date, _written(table, file.path)), reverse=True)
    for file in files:
        found += _rows(table.folder / file.path, rows - len(found), {"date": file.date, "type": file.type})
        if len(found) >= rows:
            break
    columns = tuple(dict.fromkeys(column for row in found for column in row))[:COLUMNS_MAX]
    shown = tuple(tuple(_cell(row.get(column)) for column in columns) for row in found)
    return Preview(
        columns, shown, f"{len(shown)} rows of the newest of {len(files):,} files" if files else "nothing is written yet"
    )


def _written(table: Table, path: str) -> float:
    try:
        return (table.folder / path).stat().st_mtime
    except OSError:
        return 0.0


def _rows(path: Path, most: int, parts: dict[str, str]) -> list[dict[str, Any]]:
    """The first rows of a file; what its folders say is said first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        batch = next(file.iter_batches(batch_size=most), None)
        return [] if batch is None else [parts | row for row in batch.to_pylist()]
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"{path.name} cannot be read: {error}") from error


def _cell(value: Any) -> str:
    text = "" if value is None else value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"


def _tables(folder: str) -> list[Table]:
    try:
        from hanse.pipeline.lake_files import tables
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{EXTRA} ({error.name} is missing)") from error
    return tables(Path(folder))
