"""Pictures that teach: how threads, banks, tiles and sectors meet.

Each title states what is to be seen, computed from what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smemkit.checker.bank_maps import map_rows
from smemkit.checker.banks import LaneAddresses, wavefronts
from smemkit.checker.figures import draw_bank_map
from smemkit.lab.running import recorded_problem
from smemkit.lab.style import CEILING, NEEDED, PLAIN, SMALL, clean, draw_bars, figure, height, legend
from smemkit.measure.formats import format_number, pluralize
from smemkit.measure.prediction import H200
from smemkit.table.kernel_table import ladder_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from smemkit.lab.experiment import Row

__all__ = [
    "bank_map",
    "draw_matrix",
    "draw_tree",
    "ladder_chart",
    "pipeline",
    "reduction_tree",
    "roofline",
    "sectors",
    "tile_walk",
    "tree_steps",
]

SECTOR = 32  # bytes


# ---- one access ----


def bank_map(addresses: LaneAddresses, size: int = 4, *, store: bool = False) -> Figure:
    """Which lane each bank serves in each wavefront of one access of a warp.

    Parameters
    ----------
    addresses : sequence of int or None
        The byte address of each lane; None for an inactive lane.
    size : {4, 1, 2, 8, 16}
        Bytes per lane.
    store : bool
        Whether it is a store.

    Returns
    -------
    matplotlib.figure.Figure
    """
    found, rows = wavefronts(addresses, size, store=store), map_rows(addresses, size, store=store)
    needed = found.wavefronts - found.conflicts
    title = f"{found.degree}-way bank conflict: {found.wavefronts} wavefronts where {needed} would do"
    if not found.conflicts:
        title = f"No bank conflict: {pluralize(found.wavefronts, 'wavefront')}"
    drawn = figure(title, 9, 1.5 + 0.19 * len(rows))
    draw_bank_map(drawn.subplots(), rows, "the lane that a bank serves; n×: n lanes with one word")
    return drawn


def sectors(addresses: LaneAddresses, size: int = 4) -> Figure:
    """Which sectors of global memory one access of a warp touches, and how much of them it uses.

    Parameters
    ----------
    addresses : sequence of int or None
        The byte address of each lane.
    size : int
        Bytes per lane.

    Returns
    -------
    matplotlib.figure.Figure
    """
    used = {b for a in addresses if a is not None for b in range(a, a + size)}
    touched = sorted({byte // SECTOR for byte in used})
    share = len(used) / (SECTOR * len(touched))
    drawn = figure(
        f"A warp's access touches {pluralize(len(touched), 'sector')} of 32 bytes and uses {100 * share:.3g} % of "
        "them",
        9,
        1.3 + 0.3 * math.ceil(len(touched) / 8),
    )
    axes = drawn.subplots()
    for place, sector in enumerate(touched):
        row, column = divmod(place, 8)
        _draw_sector(axes, row, column, [sector * SECTOR + byte in used for byte in range(SECTOR)], sector)
    axes.set(xlim=(-0.05, 8), ylim=(math.ceil(len(touched) / 8) - 0.1, -0.15))
    axes.set_axis_off()
    return drawn


def _draw_sector(axes: Axes, row: int, column: int, used: Sequence[bool], number: int) -> None:
    """A sector as eight words: those that are used are filled, the others are hatched."""
    from matplotlib.patches import Rectangle

    for word in range(8):
        style = (
            {"facecolor": "teal"}
            if any(used[4 * word : 4 * word + 4])
            else {"facecolor": "tomato", "hatch": "////"}
        )
        corner = column + 0.115 * word, row
        axes.add_patch(Rectangle(corner, 0.115, 0.5, edgecolor="white", linewidth=0.6, **style))
    axes.text(column + 0.46, row + 0.53, f"sector {number}", ha="center", va="top", fontsize=6.5)


# ---- the tree reduction ----


def reduction_tree(n: int = 16, way: str = "sequential") -> Figure:
    """The steps of a tree reduction: which threads work, and which words they add.

    Parameters
    ----------
    n : int
        Words, and threads: a power of two up to 32.
    way : {"sequential", "divergent", "conflicting"}
        How the work is divided among the threads, as in the ladder.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if n not in (2, 4, 8, 16, 32):
        raise ValueError(f"n: expected 2, 4, 8, 16 or 32, got {n!r}")
    steps = tree_steps(n, way)
    counts = ", ".join(str(len(step)) for step in steps)
    where = {
        "sequential": "the first threads, side by side",
        "divergent": "threads with idle ones between them",
        "conflicting": "the first threads, on words far apart",
    }[way]
    drawn = figure(f"{len(steps)} steps add {n} words: {counts} threads work, {where}", 9, 1.3 + 0.75 * len(steps))
    draw_tree(drawn.subplots(), n, steps, len(steps))
    return drawn


def tree_steps(n: int, way: str) -> list[list[tuple[int, int, int]]]:
    """Per step: the thread, the word to which it adds, and the word that it adds."""
    return [_tree_step(n, way, step) for step in range(int(math.log2(n)))]


def draw_tree(axes: Axes, n: int, steps: Sequence[Sequence[tuple[int, int, int]]], shown: int) -> None:
    """Draws the first steps of a tree, and below the last one the sum."""
    for number, step in enumerate(steps[:shown]):
        _draw_step(axes, n, number, step)
    if shown == len(steps):
        _draw_words(axes, n, len(steps), [0])
    axes.set(xlim=(-2.2, n - 0.3), ylim=(len(steps) + 0.5, -0.5))
    axes.set_axis_off()


def _tree_step(n: int, way: str, step: int) -> list[tuple[int, int, int]]:
    if way == "sequential":
        distance = n >> (step + 1)
        return [(t, t, t + distance) for t in range(distance)]
    distance = 1 << step
    words = range(0, n, 2 * distance)
    return [(word if way == "divergent" else t, word, word + distance) for t, word in enumerate(words)]


def _draw_step(axes: Axes, n: int, number: int, step: Sequence[tuple[int, int, int]]) -> None:
    threads = {word: thread for thread, word, _ in step}
    axes.text(-0.9, number, f"step {number + 1}", ha="right", va="center", fontsize=SMALL)
    _draw_words(axes, n, number, threads, threads)
    for _, word, other in step:
        for start in (word, other):
            axes.plot(
                [start, word],
                [number + 0.3, number + 0.68],
                color="teal" if start == word else "tomato",
                linewidth=1,
            )


def _draw_words(axes: Axes, n: int, row: int, filled: Any, threads: dict[int, int] | None = None) -> None:
    """A row of words: filled where a thread writes, with the thread's number."""
    from matplotlib.patches import Rectangle

    for word in range(n):
        style = {"facecolor": "teal"} if word in filled else {"facecolor": "whitesmoke"}
        axes.add_patch(Rectangle((word - 0.4, row - 0.27), 0.8, 0.54, edgecolor="gray", linewidth=0.6, **style))
        if threads and word in threads:
            axes.text(word, row, f"t{threads[word]}", ha="center", va="center", fontsize=6, color="white")
    if threads is None:
        axes.text(-0.9, row, "sum", ha="right", va="center", fontsize=SMALL)


# ---- tiles ----


def tile_walk(n: int = 8, tile: int = 4, block: tuple[int, int] = (0, 1)) -> Figure:
    """How the tiles of one block walk over A and B, step by step.

    Parameters
    ----------
    n : int
        Rows and columns of the matrices.
    tile : int
        Rows and columns of a tile: a divisor of `n`, at least n / 6.
    block : (int, int)
        Row and column of the block's tile of C.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not 0 < tile <= n <= 6 * tile or n % tile:
        raise ValueError(f"tile: expected a divisor of n, at least n / 6; got {tile} for n = {n}")
    steps = n // tile
    if not all(0 <= place < steps for place in block):
        raise ValueError(f"block: expected a row and a column from 0 to {steps - 1}, got {block}")
    drawn = figure(
        f"{pluralize(steps, 'pair')} of tiles of {tile} × {tile} make a tile of C: {2 * n} words are used per "
        "element, and "
        f"{2 * n // tile} loaded",
        1.2 + 1.75 * steps,
        4.3,
    )
    for step, column in enumerate(drawn.subplots(2, steps, squeeze=False).T):
        draw_matrix(column[0], n, tile, (block[0], step), f"step {step + 1}: A", "teal")
        draw_matrix(column[1], n, tile, (step, block[1]), "B", "skyblue")
    return drawn


def draw_matrix(axes: Axes, n: int, tile: int, at: tuple[int, int], title: str, color: str) -> None:
    """Draws a matrix with one of its tiles."""
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle((at[1] * tile, at[0] * tile), tile, tile, color=color, hatch="" if color == "teal" else "....")
    )
    for line in range(n + 1):
        width = 1.4 if line % tile == 0 else 0.3
        axes.plot([0, n], [line, line], color="gray", linewidth=width)
        axes.plot([line, line], [0, n], color="gray", linewidth=width)
    axes.set(xlim=(-0.1, n + 0.1), ylim=(n + 0.1, -0.1), aspect="equal")
    axes.set_title(title, fontsize=SMALL + 1)
    axes.set_axis_off()


# ---- time ----


def pipeline(stages: int = 3, tiles: int = 6, copy: int = 2, compute: int = 1) -> Figure:
    """The stages of a pipeline in time: which tile is copied and which is used.

    Parameters
    ----------
    stages : int
        Tiles that shared memory holds: 1 for copies through registers.
    tiles : int
    copy, compute : int
        How long a copy and the work on a tile take.

    Returns
    -------
    matplotlib.figure.Figure
    """
    spans = _schedule(stages, tiles, copy, compute)
    end, alone = spans[-1][3], tiles * (copy + compute)
    title = f"{pluralize(stages, 'stage')}: {tiles} tiles in {end} units of time"
    title += f" instead of {alone}" if end < alone else ", because no copy runs beside the work"
    drawn = figure(title, 9, 1.4 + 0.36 * (stages + 1))
    axes = drawn.subplots()
    for tile, (begin, ready, start, done) in enumerate(spans):
        _draw_span(axes, begin, ready, tile % stages, tile, PLAIN)
        _draw_span(axes, start, done, stages, tile, NEEDED)
    names = [f"copy, stage {stage}" for stage in range(stages)]
    axes.set_yticks(range(stages + 1), [*names, "work"])
    axes.set(xlim=(0, end + 0.2), ylim=(stages + 0.6, -0.6), xlabel="time")
    axes.xaxis.get_major_locator().set_params(integer=True)
    clean(axes)
    return drawn


def _schedule(stages: int, tiles: int, copy: int, compute: int) -> list[tuple[int, int, int, int]]:
    """Per tile, the times at which its copy starts and ends, and its work starts and ends. A copy waits until its
    stage is free; copies overlap, as latencies do."""
    spans: list[tuple[int, int, int, int]] = []
    for tile in range(tiles):
        begin = spans[tile - stages][3] if tile >= stages else 0
        start = max(begin + copy, spans[-1][3] if spans else 0)
        spans.append((begin, begin + copy, start, start + compute))
    return spans


def _draw_span(axes: Axes, begin: int, end: int, row: int, tile: int, style: dict[str, str]) -> None:
    axes.barh(row, end - begin, left=begin, height=0.8, edgecolor="white", **style)
    color = "white" if style is NEEDED else "black"
    axes.text((begin + end) / 2, row, f"{tile}", ha="center", va="center", fontsize=SMALL, color=color)


# ---- speed ----


def ladder_chart(op: str, shape: tuple[int, ...]) -> Figure:
    """The recorded speeds of a ladder's rungs, with the ceiling drawn.

    Parameters
    ----------
    op : {"reduce", "transpose", "matmul"}
    shape : tuple of int
        A problem of the reference file: (8192, 8192).

    Returns
    -------
    matplotlib.figure.Figure
    """
    records = recorded_problem(op, shape)
    if records is None:
        raise ValueError(f"shape: nothing is recorded for {op} of {shape}")
    found = [(rung.name, records.row(rung.name), rung.role) for rung in ladder_of(op)]
    found = [(name, row, role) for name, row, role in found if row]
    values, unit = [row["value"] for _, row, _ in found], found[0][1]["unit"]
    rungs = [(name, row["value"]) for name, row, role in found if role != "ceiling"]
    slow, (fast, best) = rungs[0], max(rungs, key=lambda rung: rung[1])
    title = (
        f"{op}: from {slow[0]} to {fast} {format_number(best / slow[1])} times as fast; recorded on "
        f"{records.where}"
    )
    drawn = figure(title, 8, height(len(found)))
    axes = drawn.subplots()
    draw_bars(axes, [name for name, _, _ in found], values, unit=unit)
    rate = next((row["value"] / row["ceiling_fraction"] for _, row, _ in found if row["ceiling_fraction"]), None)
    if rate:
        axes.axvline(rate, label=f"ceiling, {format_number(rate)} {unit}", **CEILING)
        axes.set_xlim(0, 1.16 * max(rate, *values))
        legend(axes)
    return drawn


def roofline(rows: Sequence[Row], where: str | None) -> Figure:
    """A matmul's rungs under the roofs of FP32 units, memory, L2 and L1.

    Parameters
    ----------
    rows : sequence of dict
        Of `smemkit.lab.matmul`: "rung", "intensity", and "tflops" or "recorded".
    where : str or None
        The GPU, for the title.

    Returns
    -------
    matplotlib.figure.Figure
    """
    key = "tflops" if any(row["tflops"] for row in rows) else "recorded"
    points = [(row["rung"], row["intensity"], row[key]) for row in rows if row[key]]
    peak = next((row["recorded"] / row["fraction"] for row in rows if row["fraction"]), None)
    best = max(points, key=lambda point: point[2])
    of = f", {100 * best[2] / peak:.0f} % of the FP32 units" if peak else ""
    title = f"{best[0]} comes nearest to the roof: {format_number(best[2])} TFLOP/s{of}" + (
        f"; {where}" if where else ""
    )
    drawn = figure(title, 8, 5)
    axes = drawn.subplots()
    roofs = {
        "memory": H200.memory_bandwidth,
        "L2": H200.l2_bandwidth,
        "L1": 128 * H200.multiprocessors * H200.clock,
    }
    low, high = 0.2, 60
    for (name, rate), style in zip(roofs.items(), ("-", ":", "-."), strict=True):
        top = peak or 100
        edge = min(high, top * 1e12 / rate)
        label = f"{name}, {rate / 1e12:.3g} TB/s"
        axes.plot(
            [low, edge],
            [low * rate / 1e12, edge * rate / 1e12],
            color="black",
            linewidth=1,
            linestyle=style,
            label=label,
        )
    if peak:
        axes.axhline(peak, label=f"FP32 units, {format_number(peak)} TFLOP/s", **CEILING)
    _draw_points(axes, points)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(1, 1.6 * (peak or 100)))
    axes.set(xlabel="FLOP per byte of global memory, as counted", ylabel="TFLOP/s")
    clean(axes)
    axes.legend(fontsize=SMALL, frameon=False, loc="lower right")
    return drawn


def _draw_points(axes: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    """Markers, and names at their left or right so that neighbours do not overlap."""
    for number, (name, x, y) in enumerate(points):
        marker = "osD^v<>Ph*"[number % 10]
        axes.plot([x], [y], marker, color="teal", markersize=7, markeredgecolor="black")
        others = [b for a, b in ((p[1], p[2]) for p in points[:number]) if abs(math.log(a / x)) < 0.7]
        close = any(abs(math.log(b / y)) < 0.12 for b in others)
        side = -1 if close else 1
        axes.annotate(
            name,
            (x, y),
            (9 * side, 0),
            textcoords="offset points",
            fontsize=SMALL,
            va="center",
            ha="left" if side > 0 else "right",
        )
