"""A recorded run of the DisGB authors' simulator, replayed: the same messages, the same deliveries at the same ticks."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanse.model import InvalidInput
from hanse.simulation.replay import AUTHORS_NAMES, Recording, read_recording, replay, summary, write_deliveries

RECORDED = Path(__file__).parents[1] / "data" / "disgb-1k"
EXPECTED: dict[str, Any] = json.loads((RECORDED / "expected.json").read_text())["strategies"]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return read_recording(RECORDED)


@pytest.mark.parametrize("strategy", AUTHORS_NAMES)
def test_it_is_the_authors_run(recording: Recording, strategy: str, tmp_path: Path) -> None:
    simulator = replay(recording, strategy)
    theirs = EXPECTED[AUTHORS_NAMES[strategy]]
    ours = summary(simulator)
    assert ours["message_counts"] == theirs["message_counts"]
    assert ours["broker_to_broker_messages"] == theirs["broker_to_broker_messages"]
    assert ours["deliveries_to_publisher_itself"] == theirs["deliveries_to_publisher_itself"]
    assert ours["last_processed_tick_ms"] == theirs["last_processed_tick_ms"]
    for figure in ("event_delivery_latency_ms", "subscription_update_delay_ms"):
        for name, value in theirs[figure].items():
            assert ours[figure][name] == (None if value is None else pytest.approx(value, rel=1e-12))
    written = write_deliveries(simulator, tmp_path)
    assert rows(written) == rows(RECORDED / written.name)


def rows(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", newline="") as file:
        header, *body = csv.reader(file)
    return [header, *sorted(body)]


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    if path.suffix == ".gz":
        with gzip.open(path, "rt") as file:
            text = file.read()
        with gzip.open(path, "wt") as file:
            file.write(change(text))
    else:
        path.write_text(change(path.read_text()))


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("brokers.csv", lambda t: t.replace("lat", "latitude", 1), "no column 'lat'"),
        ("brokers.csv", lambda t: t.replace("32.05", "north", 1), "brokers.csv:2: lat is 'north'"),
        ("brokers.csv", lambda t: t.replace("32.05", "132.05", 1), "latitude 132.05"),
        ("brokers.csv", lambda t: t + t.splitlines()[1] + "\n", "one twice"),
        ("fields.csv", lambda t: "\n".join(t.splitlines()[:-1]) + "\n", "do not make up the earth"),
        ("fields.csv", lambda t: t.replace(",16,Asuncion", ",99,Asuncion", 1), "broker_index is 99"),
        ("broker_latency_ms.csv", lambda t: t.replace("0,1,249", "0,2,249", 1), "no latency from"),
        ("workload.csv.gz", lambda t: t.replace(",location,", ",teleport,", 1), "workload.csv.gz:2: type 'teleport'"),
        ("workload.csv.gz", lambda t: t.replace("12832", "soon", 1), "tick_ms is 'soon'"),
        ("workload.csv.gz", lambda t: t.replace("\n0,", "\n0,1,", 1), "more values"),
        ("gqps_grid.csv", lambda t: t.replace("grid_row", "row", 1), "no column 'grid_row'"),
    ],
)
def test_a_damaged_recording_is_refused_with_its_place(
    tmp_path: Path, name: str, change: Callable[[str], str], complaint: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RECORDED, folder)
    rewrite(folder / name, change)
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read_recording(folder).simulator("geo-subscriber").settings.areas.owner(0.0, 0.0)
    assert "\n" not in str(caught.value)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such folder"):
        read_recording(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match=r"brokers\.csv: cannot be read"):
        read_recording(tmp_path)
    folder = tmp_path / "run"
    shutil.copytree(RECORDED, folder)
    (folder / "workload.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(InvalidInput, match="not a readable CSV file"):
        read_recording(folder)
