"""Plots of what strategies cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.model import InvalidInput
from hanse.simulation.run import KINDS, Result, by_kind

if TYPE_CHECKING:
    from pathlib import Path

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#999999")  # told apart by everyone


def plot_results(results: list[Result], folder: Path, title: str) -> list[Path]:
    """Messages by kind, and delivery latency, one bar a strategy; the files that were written."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot be made: {error.strerror}", place=str(folder)) from error
    ordered = sorted(results, key=lambda result: result.between_brokers)
    names = [result.strategy for result in ordered]

    messages, axes = plt.subplots(figsize=(9, 0.45 * len(names) + 1.6), layout="constrained")
    left = [0] * len(names)
    for kind, colour in zip(KINDS, COLOURS, strict=True):
        counts = [by_kind(result.messages)[kind] for result in ordered]
        axes.barh(names, counts, left=left, label=kind, color=colour)
        left = [a + b for a, b in zip(left, counts, strict=True)]
    for y, total in enumerate(left):
        axes.text(total, y, f" {total:,}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("messages between brokers")
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)

    latency, axes = plt.subplots(figsize=(9, 0.45 * len(names) + 1.6), layout="constrained")
    means = [result.latency_ms.mean or 0.0 for result in ordered]
    tails = [result.latency_ms.p95 or 0.0 for result in ordered]
    axes.barh(names, tails, color="#56B4E9", label="95th percentile", height=0.75)
    axes.barh(names, means, color="#0072B2", label="mean", height=0.35)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds from publisher to subscriber")
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)

    written = []
    for figure, name in ((messages, "messages"), (latency, "latency")):
        for suffix in ("svg", "png"):
            path = folder / f"{name}.{suffix}"
            figure.savefig(path, dpi=130)
            written.append(path)
        plt.close(figure)
    return written
