"""The picture of ``smemkit bench --plot``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smemkit.bench.rows import Row
from smemkit.checker.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot"]

WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # behind labels over a line
MAX_BARS = 60  # a picture of more is too high to be read; the lowest ratios are kept


def plot(rows: Sequence[Row], device: str) -> Figure:
    """A bar for each row with peers, rungs excepted: the fastest peer's time divided by ours. Without such rows,
    the times of all.

    Raises
    ------
    ImportError
        Matplotlib is not installed.
    """
    compared = sorted((row for row in rows if row.ratio and not row.kernel), key=lambda row: row.ratio)
    timed = [row for row in rows if row.us]
    shown = (compared or timed)[:MAX_BARS]
    values = [row.ratio if compared else row.us for row in shown]
    figure = new_figure("bench --plot", figsize=(10, 1.4 + 0.22 * max(len(shown), 1)))
    axes = figure.subplots()
    bars = axes.barh([_name(row) for row in shown], values, color="teal")
    axes.bar_label(bars, [f"{value:.2f}" for value in values], padding=3, fontsize=7, bbox=WHITE)
    axes.tick_params(labelsize=7)
    axes.margins(x=0.1, y=0.01)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    if compared:
        axes.axvline(1, color="black", linestyle="--", linewidth=1.2)
        axes.set_xlabel("times as fast as the fastest peer")
        faster = sum(row.ratio >= 1 for row in compared)
        title = f"{device}: at least as fast as every peer in {faster} of {len(compared)} rows"
    else:
        axes.set_xlabel("µs")
        executor = any(row.suite == "executor" for row in shown)
        what = "the times of the CPU device, not a GPU's" if executor else "no peer to compare with"
        title = f"{device}: {what}"
    if len(shown) < len(compared or timed):
        title += f"; {len(shown)} of them are shown" + (", the slowest" if compared else "")
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, parse_math=False)
    return figure


def _name(row: Row) -> str:
    """What distinguishes a row from the others: "matmul n = 256, float32, cold"."""
    dtype = "" if row.dtype and row.dtype in row.case else row.dtype
    parts = [f"{row.op} {row.case}", row.kernel, dtype, "cold" if row.cold else ""]
    return ", ".join(part for part in parts if part)
