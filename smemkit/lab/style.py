"""The look of the laboratory's pictures.

What is needed is teal, what it costs beyond that is tomato and hatched, and ceilings are dashed black lines, so
that nothing depends on colour alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smemkit.checker.figures import new_figure
from smemkit.measure.formats import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CEILING",
    "COST",
    "IDLE",
    "LABEL",
    "NEEDED",
    "PLAIN",
    "SMALL",
    "clean",
    "draw_bars",
    "figure",
    "height",
    "legend",
]

NEEDED = {"color": "teal"}
COST = {"color": "tomato", "hatch": "////", "edgecolor": "white"}
PLAIN = {"color": "skyblue"}
CEILING = {"color": "black", "linestyle": "--", "linewidth": 1.2}
IDLE = {"color": "whitesmoke", "edgecolor": "silver"}
LABEL = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # over lines
SMALL = 8  # the size of labels in points


def figure(title: str, width: float, height: float) -> Figure:
    """A new figure with its title at the left."""
    new = new_figure("a picture of smemkit.lab", figsize=(width, height))
    lines = textwrap.wrap(title, int(11.5 * width))
    new.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10.5, parse_math=False)
    return new


def clean(axes: Axes) -> None:
    """Removes the frame, and makes the labels small."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL)
    axes.xaxis.label.set_size(SMALL + 1)
    axes.yaxis.label.set_size(SMALL + 1)
    axes.title.set_size(SMALL + 1)


def legend(axes: Axes) -> None:
    """Puts the legend above the axes, where it covers no bar."""
    axes.legend(
        fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2
    )


def draw_bars(
    axes: Axes,
    names: Sequence[str],
    needed: Sequence[float],
    cost: Sequence[float] | None = None,
    *,
    labels: tuple[str, str] = ("", ""),
    notes: Sequence[str] = (),
    unit: str = "",
) -> None:
    """A horizontal bar per name: what is needed and, hatched, what it costs beyond that."""
    positions = range(len(names))
    bars = axes.barh(positions, needed, label=labels[0], **NEEDED)
    if cost is not None and any(cost):
        bars = axes.barh(positions, cost, left=needed, label=labels[1], **COST)
    if any(labels):
        legend(axes)
    axes.bar_label(
        bars, notes or [format_number(value) for value in needed], padding=3, fontsize=SMALL, bbox=LABEL
    )
    axes.set_yticks(positions, names, parse_math=False)
    axes.set_xlabel(unit)
    axes.invert_yaxis()
    axes.margins(x=0.16)
    clean(axes)


def height(count: int) -> float:
    """The height of a figure with that many bars, in inches."""
    return 1.4 + 0.27 * count
