"""A report as figures: the cost of each line, and the bank map of the worst line."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smemkit.checker.bank_maps import bank_map_rows, bank_map_title, cell_text, worst_lines
from smemkit.checker.banks import BANKS
from smemkit.checker.excerpts import shorten
from smemkit.checker.launches import LaunchReport, headline
from smemkit.checker.lines import LineReport
from smemkit.measure.formats import format_average, format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_bank_map", "new_figure", "plot"]


def new_figure(caller: str, *, figsize: tuple[float, float]) -> Figure:
    """A figure that a notebook shows once, because pyplot, which would show it again, is not used. The ImportError
    names `caller`."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"{caller} draws with matplotlib: pip install 'smemkit[plot]'") from error

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            png = io.BytesIO()
            self.savefig(png, format="png", bbox_inches="tight")
            return png.getvalue()

    return NotebookFigure(figsize=figsize, layout="constrained")


def plot(launches: Sequence[LaunchReport]) -> Figure:
    """Implements `Report.plot`."""
    lines = [line for launch in launches for line in launch.lines]
    shared = [line for line in lines if line.space == "shared"]
    global_lines = [line for line in lines if line.space == "global"]
    maps = worst_lines(lines)[:1]
    heights = [0.9 + 0.32 * min(len(lines), 20) for lines in (shared, global_lines) if lines]
    heights += [1.2 + 0.19 * len(bank_map_rows(line)) for line in maps]
    figure = new_figure("report.plot()", figsize=(10, 0.6 + sum(heights or [1])))
    figure.suptitle(
        textwrap.fill(shorten(headline(launches), 300), 110), x=0.01, ha="left", fontsize=11, parse_math=False
    )
    panels = [
        axes[0] for axes in figure.subplots(max(1, len(heights)), 1, height_ratios=heights or [1], squeeze=False)
    ]
    free = iter(panels)
    if shared:
        ideal = [line.wavefronts - line.conflicts for line in shared]
        notes = [f"{line.degree}-way" if line.conflicts else "" for line in shared]
        _bar_chart(
            next(free), shared, ideal, [line.wavefronts for line in shared], "wavefronts", "bank conflicts", notes
        )
    if global_lines:
        ideal = [line.ideal_sectors / max(1, line.requests) for line in global_lines]
        whole = [line.sectors / max(1, line.requests) for line in global_lines]
        notes = [format_average(line.sectors, line.requests) if line.wasteful else "" for line in global_lines]
        _bar_chart(
            next(free), global_lines, ideal, whole, "sectors per request", "more than the bytes need", notes
        )
    for line in maps:
        title = f"{shorten(bank_map_title(line), 90)}\nthe lane that a bank serves; n×: n lanes with one word"
        draw_bank_map(next(free), bank_map_rows(line), title)
    if not heights:
        panels[0].set_axis_off()
        panels[0].text(0.5, 0.5, "no line touches shared or global memory", ha="center")
    return figure


def _bar_chart(
    axes: Axes,
    lines: Sequence[LineReport],
    ideal: Sequence[float],
    whole: Sequence[float],
    unit: str,
    excess: str,
    notes: Sequence[str],
) -> None:
    """A bar per line: the ideal, and the cost above it. Of more than 20 lines, those with the highest cost."""
    order = sorted(range(len(lines)), key=lambda i: -whole[i])[:20]
    order.sort()
    names = [f"{shorten(line.text.strip(), 44)}   {line.line} {line.access}" for line in (lines[i] for i in order)]
    positions, best = range(len(order)), [ideal[i] for i in order]
    more = [max(0.0, whole[i] - ideal[i]) for i in order]
    axes.barh(positions, best, color="teal", label="ideal")
    bars = axes.barh(positions, more, left=best, color="tomato", label=excess)
    axes.bar_label(bars, [notes[i] for i in order], padding=3, fontsize=8)
    axes.set_yticks(positions, names, fontsize=8, family="monospace", parse_math=False)
    axes.set_xlabel(unit)
    if max(whole) >= 1000:
        axes.xaxis.set_major_formatter(lambda value, _: format_count(round(value)))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)


def draw_bank_map(
    axes: Axes, rows: Sequence[tuple[bool, Sequence[tuple[int, ...]], Sequence[bool]]], title: str
) -> None:
    """Draws a bank map, a row per wavefront, from `bank_map_rows`; banks with several words are hatched."""
    from matplotlib.patches import Rectangle

    for number, (new, row, crowded) in enumerate(rows):
        if new:
            axes.axhline(number - 0.5, color="black", linewidth=1.5)
        for bank, lanes in enumerate(row):
            if lanes:
                style = {"facecolor": "tomato", "hatch": "////"} if crowded[bank] else {"facecolor": "skyblue"}
                axes.add_patch(
                    Rectangle((bank - 0.5, number - 0.5), 1, 1, edgecolor="white", linewidth=0, **style)
                )
                label = axes.text(bank, number, cell_text(lanes), ha="center", va="center", fontsize=6.5)
                if crowded[bank]:
                    label.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.4})
    axes.set(xlim=(-0.5, BANKS - 0.5), ylim=(len(rows) - 0.5, -0.5), xlabel="bank", ylabel="wavefront")
    axes.set_xticks(range(0, BANKS, 4))
    axes.set_xticks([bank + 0.5 for bank in range(BANKS - 1)], minor=True)
    axes.set_yticks(range(0, len(rows), max(1, len(rows) // 8)))
    axes.grid(which="minor", color="lightgray", linewidth=0.4)
    axes.tick_params(which="minor", length=0)
    axes.set_title(title, fontsize=9, parse_math=False)
