"""Replay of a recorded run, against the CPU seconds that the authors' own simulator took for it.

Example: python benchmarks/bench_replay.py [DIR] [--json]

The authors' seconds are those in the folder's expected.json (Java 17, two cores like those that this project uses, whole process,
just-in-time compilation included); ours are the CPU seconds of this process for the same run, start-up and reading included.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

STARTED = time.process_time()
DEFAULT = Path(__file__).parents[1] / "tests" / "data" / "disgb-1k"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    from hanse.simulation.replay import AUTHORS_NAMES, read_recording, replay, summary

    expected = json.loads((arguments.folder / "expected.json").read_text())["strategies"]
    recording = read_recording(arguments.folder)
    overhead = time.process_time()  # imports and reading: as every single run of theirs includes its own start
    rows = []
    for strategy, name in AUTHORS_NAMES.items():
        before = time.process_time()
        simulator = replay(recording, strategy)
        result = summary(simulator)
        seconds = time.process_time() - before + overhead
        theirs = expected[name]["seconds"]["cpu_s"]
        messages = sum(result["message_counts"].values())
        rows.append(
            {
                "strategy": strategy,
                "same_counts": result["message_counts"] == expected[name]["message_counts"],
                "messages": messages,
                "cpu_s": round(seconds, 2),
                "authors_cpu_s": theirs,
                "ratio": round(seconds / theirs, 3),
                "us_per_message": round((seconds - overhead) / messages * 1e6, 1),
            }
        )
    ours, theirs = sum(row["cpu_s"] for row in rows), sum(row["authors_cpu_s"] for row in rows)
    if arguments.json:
        print(json.dumps({"strategies": rows, "cpu_s": ours, "authors_cpu_s": theirs, "ratio": ours / theirs}, indent=2))
        return
    table = Table(title=f"Replay of {arguments.folder.name}, CPU seconds", title_justify="left")
    for heading in ("strategy", "same counts", "messages", "ours", "authors'", "ours / authors'", "µs a message"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for row in rows:
        table.add_row(
            str(row["strategy"]),
            "yes" if row["same_counts"] else "[red]no[/red]",
            f"{row['messages']:,}",
            f"{row['cpu_s']:.2f}",
            f"{row['authors_cpu_s']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['us_per_message']:.1f}",
        )
    Console(width=130).print(table)
    verdict = "not slower than" if ours <= theirs else "SLOWER than"
    print(f"All seven: {ours:.1f} CPU s, {verdict} the authors' {theirs:.1f} ({ours / theirs:.2f} of it).")


if __name__ == "__main__":
    main()
