"""The figures of the experiments: each is drawn from the rows alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smemkit.lab.pictures import pipeline, roofline
from smemkit.lab.style import (
    CEILING,
    COST,
    IDLE,
    LABEL,
    NEEDED,
    PLAIN,
    SMALL,
    clean,
    draw_bars,
    figure,
    height,
    legend,
)
from smemkit.measure.formats import format_number, format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from smemkit.lab.experiment import Experiment, Row

__all__ = [
    "async_copy",
    "banks",
    "carveout",
    "coalescing",
    "divergence",
    "first_kernels",
    "hierarchy",
    "marks",
    "matmul",
    "occupancy",
    "padding",
    "parallelism",
    "precision",
    "reduction",
    "reverse",
    "speedups",
    "tiling",
    "transfers",
    "tree",
]


def title_of(experiment: Experiment) -> str:
    """The verdict, shortened to the first things that it says."""
    parts = experiment.verdict.removesuffix(".").split("; ")
    title = parts[0]
    for part in parts[1:]:
        if len(title) + len(part) > 170:
            break
        title += f"; {part}"
    return title


def _time_of(rows: Sequence[Row], measured: str = "seconds", recorded: str = "recorded") -> tuple[str, str]:
    """The key of the times to draw, and the word for it."""
    return (measured, "measured") if any(row[measured] for row in rows) else (recorded, "recorded")


# ---- shared memory ----


def banks(experiment: Experiment) -> Figure:
    """Wavefronts by stride, and of the other accesses."""
    known = [row for row in experiment.rows if row["wavefronts"] is not None]
    strides = [row for row in known if row["access"].startswith("float, stride")]
    others = [row for row in known if row not in strides]
    drawn = figure(title_of(experiment), 9, 6.6)
    above, below = drawn.subplots(2, 1, height_ratios=(1, 1.1))
    numbers = [int(row["access"].split()[-1]) for row in strides]
    needed = [row["wavefronts"] - row["conflicts"] for row in strides]
    above.bar(numbers, needed, label="needed", **NEEDED)
    above.bar(numbers, [row["conflicts"] for row in strides], bottom=needed, label="bank conflicts", **COST)
    above.set(xlabel="stride of floats, in words", ylabel="wavefronts", xticks=range(1, 34, 2), xlim=(0.2, 33.8))
    clean(above)
    legend(above)
    needed = [row["wavefronts"] - row["conflicts"] for row in others]
    notes = [str(row["wavefronts"]) for row in others]
    draw_bars(
        below,
        [r["access"] for r in others],
        needed,
        [r["conflicts"] for r in others],
        notes=notes,
        unit="wavefronts",
    )
    return drawn


def padding(experiment: Experiment) -> Figure:
    """Wavefronts per load by pad, for each tile."""
    tiles = sorted({row["tile"] for row in experiment.rows})
    drawn = figure(title_of(experiment), 9, 3.2)
    for axes, tile in zip(drawn.subplots(1, len(tiles), sharey=True), tiles, strict=True):
        of = [row for row in experiment.rows if row["tile"] == tile]
        axes.bar([row["pad"] for row in of], [1] * len(of), label="needed", **NEEDED)
        more = axes.bar(
            [r["pad"] for r in of], [r["load"] - 1 for r in of], bottom=1, label="bank conflicts", **COST
        )
        axes.bar_label(more, [f"{row['load']:g}" for row in of], fontsize=SMALL)
        axes.set(title=f"tile {tile}", xlabel="columns of padding", xticks=range(5), yscale="log")
        axes.set_ylim(0.8, 60)
        clean(axes)
    drawn.axes[0].set_ylabel("wavefronts per load")
    drawn.axes[-1].legend(fontsize=SMALL, frameon=False, loc="upper right")
    return drawn


def reverse(experiment: Experiment) -> Figure:
    """Resident blocks by the way in which shared memory is declared."""
    rows = experiment.rows
    drawn = figure(title_of(experiment), 8, height(len(rows)))
    notes = [str(row["resident"]) if row["resident"] else "no block fits" for row in rows]
    unit = "resident blocks per multiprocessor"
    draw_bars(
        drawn.subplots(), [row["how"] for row in rows], [row["resident"] for row in rows], notes=notes, unit=unit
    )
    return drawn


def carveout(experiment: Experiment) -> Figure:
    """Resident warps, and what is left to L1, by carve-out."""
    sizes = sorted({row["kib"] for row in experiment.rows})
    drawn = figure(title_of(experiment), 9, 3.2)
    left, right = drawn.subplots(1, 2)
    for number, kib in enumerate(sizes):
        of = [row for row in experiment.rows if row["kib"] == kib]
        at = [row["percent"] + 9 * number - 4.5 for row in of]
        style = (NEEDED, PLAIN)[number % 2]
        drawn_bars = left.bar(at, [row["blocks"] for row in of], width=8.5, label=f"{kib} KB per block", **style)
        left.bar_label(drawn_bars, fontsize=SMALL)
    of = [row for row in experiment.rows if row["kib"] == sizes[-1]]
    for key, label, style in (("shared_kib", "shared memory", NEEDED), ("l1_kib", "L1", PLAIN)):
        bottom = [row["shared_kib"] for row in of] if key == "l1_kib" else None
        right.bar(
            [row["percent"] for row in of], [row[key] for row in of], width=15, bottom=bottom, label=label, **style
        )
    left.set(xlabel="carve-out, %", ylabel="resident blocks", xticks=(0, 25, 50, 75, 100))
    right.set(xlabel="carve-out, %", ylabel="KB", xticks=(0, 25, 50, 75, 100), title=f"blocks with {sizes[-1]} KB")
    for axes in (left, right):
        clean(axes)
        axes.legend(fontsize=SMALL, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=2)
    return drawn


# ---- other memory ----


def hierarchy(experiment: Experiment) -> Figure:
    """Latencies if they are measured, and bandwidths."""
    latencies = [row for row in experiment.rows if row["cycles"]]
    key, how = _time_of(experiment.rows, "gbps", "recorded_gbps")
    rates = [row for row in experiment.rows if row[key]]
    counts = [len(rows) for rows in (latencies, rates) if rows]
    drawn = figure(title_of(experiment), 8, 1.2 + sum(0.6 + 0.3 * count for count in counts))
    panels = iter(drawn.subplots(len(counts), 1, squeeze=False, height_ratios=counts)[:, 0])
    if latencies:
        names, values = [row["level"] for row in latencies], [row["cycles"] for row in latencies]
        draw_bars(next(panels), names, values, unit="cycles (measured)")
    if rates:
        axes = next(panels)
        draw_bars(axes, [row["level"] for row in rates], [row[key] for row in rates], unit=f"GB/s ({how})")
        axes.set_xscale("log")
        axes.set_xlim(10, 4 * max(row[key] for row in rates))
    return drawn


def coalescing(experiment: Experiment) -> Figure:
    """Sectors per load, and the ideal number."""
    rows = experiment.rows
    drawn = figure(title_of(experiment), 9, height(len(rows)))
    ideal = [row["ideal"] for row in rows]
    more = [row["sectors"] - row["ideal"] for row in rows]
    notes = [f"{row['sectors']:g}, {100 * row['used']:.3g} % used" for row in rows]
    labels, unit = ("ideal", "more than the bytes need"), "sectors per request"
    draw_bars(
        drawn.subplots(), [row["access"] for row in rows], ideal, more, labels=labels, notes=notes, unit=unit
    )
    return drawn


def transfers(experiment: Experiment) -> Figure:
    """Bandwidths, as measured; as recorded where they are not."""
    _, how = _time_of(experiment.rows, "gbps", "recorded_gbps")
    rows = [row for row in experiment.rows if row["gbps"] or row["recorded_gbps"]]
    known = [row["gbps"] or row["recorded_gbps"] for row in rows]
    names = [row["how"] + (" (recorded)" if how == "measured" and not row["gbps"] else "") for row in rows]
    drawn = figure(title_of(experiment), 9, height(len(rows)))
    axes = drawn.subplots()
    draw_bars(axes, names, known, unit=f"GB/s ({how})")
    axes.set_xscale("log")
    axes.set_xlim(0.5, 4 * max(known))
    return drawn


# ---- threads ----


def occupancy(experiment: Experiment) -> Figure:
    """Occupancy by registers and by shared memory, with what limits it."""
    rows = experiment.rows
    drawn = figure(title_of(experiment), 9, height(len(rows)))
    axes = drawn.subplots()
    names = [f"{row['registers']} registers, {row['kib']} KB" for row in rows]
    warps, idle = [row["warps"] for row in rows], [row["max_warps"] - row["warps"] for row in rows]
    axes.barh(range(len(rows)), idle, left=warps, **IDLE)
    notes = [f"{100 * row['fraction']:.3g} %, {row['limited_by']}" for row in rows]
    draw_bars(axes, names, warps, unit="resident warps")
    for text in list(axes.texts):
        text.remove()
    for place, (row, note) in enumerate(zip(rows, notes, strict=True)):
        axes.text(1.02 * row["max_warps"], place, note, va="center", fontsize=SMALL)
    axes.set_xlim(0, 1.35 * max(row["max_warps"] for row in rows))
    return drawn


def parallelism(experiment: Experiment) -> Figure:
    """Units busy, and products per second where they are measured, by warps and chains, as a grid."""
    from matplotlib.patches import Rectangle

    drawn = figure(title_of(experiment), 7, 3.8)
    axes = drawn.subplots()
    warps, chains = (sorted({row[key] for row in experiment.rows}) for key in ("warps", "chains"))
    rate = next(column for column in experiment.columns if column.key == "rate")
    for row in experiment.rows:
        x, y = chains.index(row["chains"]), warps.index(row["warps"])
        shade = "teal" if row["busy"] == 1 else "skyblue" if row["busy"] >= 0.5 else "whitesmoke"
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="white"))
        text = f"{100 * row['busy']:.3g} %" + (f"\n{rate.cell(row)}/s" if row["rate"] else "")
        color = "white" if row["busy"] == 1 else "black"
        axes.text(x, y, text, ha="center", va="center", fontsize=SMALL + 1, color=color)
    axes.set(xlim=(-0.5, len(chains) - 0.5), ylim=(len(warps) - 0.5, -0.5))
    axes.set_xticks(range(len(chains)), chains)
    axes.set_yticks(range(len(warps)), warps)
    axes.set(xlabel="independent chains per thread", ylabel="warps per scheduler")
    clean(axes)
    return drawn


def divergence(experiment: Experiment) -> Figure:
    """Active lanes of 32."""
    rows = experiment.rows
    drawn = figure(title_of(experiment), 9, height(len(rows)))
    lanes = [row["lanes"] for row in rows]
    labels, unit = ("at work", "idle"), "lanes of a request"
    notes = [f"{row['lanes']:.3g}, {row['requests']} requests" for row in rows]
    draw_bars(
        drawn.subplots(),
        [r["how"] for r in rows],
        lanes,
        [32 - n for n in lanes],
        labels=labels,
        notes=notes,
        unit=unit,
    )
    return drawn


def precision(experiment: Experiment) -> Figure:
    """Errors of a long sum, and rates."""
    drawn = figure(title_of(experiment), 9, 3.3)
    left, right = drawn.subplots(1, 2)
    known = [row for row in experiment.rows if row["error"]]
    draw_bars(
        left, [r["type"] for r in known], [r["error"] for r in known], notes=[f"{r['error']:.0e}" for r in known]
    )
    left.set(xscale="log", xlim=(1e-14, 1e3), xlabel="relative error of the sum")
    key, how = _time_of(experiment.rows, "tflops", "recorded")
    rates = {row["type"]: row[key] for row in experiment.rows if row[key]}
    for row in experiment.rows:  # the tensor cores' rates are only recorded
        if row["type"] not in rates and row["recorded"]:
            rates[f"{row['type']} (recorded)"] = row["recorded"]
    draw_bars(right, list(rates), list(rates.values()), unit=f"TFLOP/s ({how})")
    right.margins(x=0.3)
    return drawn


def async_copy(experiment: Experiment) -> Figure:
    """The pipeline of the most stages in time."""
    stages = max(row["stages"] for row in experiment.rows if row["stages"] is not None) + 1
    return pipeline(stages=stages, tiles=8, copy=3)


def marks(experiment: Experiment) -> Figure:
    """A row per kernel: whether it is right, and what is found."""
    name, rows = experiment.columns[0].key, [row for row in experiment.rows if row["fault"]]
    second = experiment.columns[1].key
    drawn = figure(title_of(experiment), 8, height(len(rows)))
    axes = drawn.subplots()
    for place, row in enumerate(rows):
        wrong = bool(row["faults"] or row.get("wrong"))
        axes.barh(place, 1, height=0.8, **(COST if wrong else NEEDED))
        label = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(0.5, place, _mark_text(row), ha="center", va="center", fontsize=SMALL, bbox=label)
    axes.set_yticks(range(len(rows)), [_mark_name(row[name], second, row[second]) for row in rows])
    axes.set(xlim=(0, 1), xticks=[], ylim=(len(rows) - 0.5, -0.5))
    clean(axes)
    return drawn


def _mark_text(row: Row) -> str:
    """What is found, or what came out."""
    if row["faults"]:
        return row["fault"]
    if row.get("wrong"):
        return f"{row['wrong']} wrong elements"
    return {"yes": "kept", "no": "lost"}.get(row.get("kept", ""), "no fault")


def _mark_name(name: str, key: str, value: Any) -> str:
    if key == "kept":
        return name
    return f"{name}, {key} = {value}" if key == "n" else f"{name}, {value}"


# ---- algorithms ----


def first_kernels(experiment: Experiment) -> Figure:
    """How many loads a thread makes one after the other."""
    rows = experiment.rows
    drawn = figure(title_of(experiment), 8, height(len(rows)))
    axes = drawn.subplots()
    notes = [f"{row['steps']:,} by {row['threads']:,}" for row in rows]
    draw_bars(axes, [row["how"] for row in rows], [row["steps"] for row in rows], notes=notes)
    axes.set(
        xscale="log", xlim=(0.5, 100 * max(row["steps"] for row in rows)), xlabel="loads of a thread, by threads"
    )
    return drawn


def reduction(experiment: Experiment) -> Figure:
    """Wavefronts with conflicts, and times."""
    rows = experiment.rows
    drawn = figure(title_of(experiment), 9, 3.6)
    left, right = drawn.subplots(1, 2, sharey=True)
    names, conflicts = [row["rung"] for row in rows], [row["conflicts"] for row in rows]
    needed = [row["wavefronts"] - row["conflicts"] for row in rows]
    notes = [format_number(row["wavefronts"]) for row in rows]
    labels = ("needed", "bank conflicts")
    draw_bars(left, names, needed, conflicts, labels=labels, notes=notes, unit="wavefronts per 1,024 elements")
    key, how = _time_of(rows)
    micros = [1e6 * (row[key] or math.nan) for row in rows]
    draw_bars(right, names, micros, notes=[format_seconds(row[key]) if row[key] else "" for row in rows])
    left.set_ylim(len(rows) - 0.5, -0.5)
    known = [value for value in micros if value == value]
    if known:
        right.set(xscale="log", xlim=(0.5 * min(known), 8 * max(known)))
    right.set_xlabel(f"µs ({how})")
    return drawn


def tree(experiment: Experiment) -> Figure:
    """Warps at work in each step, for the ways to divide it."""
    ways = list(dict.fromkeys(row["way"] for row in experiment.rows))
    drawn = figure(title_of(experiment), 9, 3.4)
    for axes, way in zip(drawn.subplots(1, len(ways), sharey=True), ways, strict=True):
        of = [row for row in experiment.rows if row["way"] == way]
        steps, full = [row["step"] for row in of], [row["active"] / 32 for row in of]
        axes.bar(steps, full, label="lanes at work", **NEEDED)
        idle = [row["warps"] - work for row, work in zip(of, full, strict=True)]
        axes.bar(steps, idle, bottom=full, label="idle lanes", **COST)
        for row in of:
            text = f"{row['degree']}-way" if row["degree"] > 1 else ""
            axes.text(row["step"], row["warps"] + 0.12, text, ha="center", fontsize=6.5)
        axes.set(title=way, xlabel="step", xticks=steps)
        clean(axes)
    drawn.axes[0].set_ylabel("warps")
    drawn.axes[-1].legend(fontsize=SMALL, frameon=False, loc="upper right")
    return drawn


def tiling(experiment: Experiment) -> Figure:
    """Loads per element against the rule, and times, by tile."""
    of = [row for row in experiment.rows if row["n"] == max(r["n"] for r in experiment.rows if not r["n"] % 32)]
    drawn = figure(title_of(experiment), 9, 3.4)
    left, right = drawn.subplots(1, 2)
    tiles, places = [row["tile"] for row in of], range(len(of))
    left.plot(places, [row["predicted"] for row in of], label="2 n / tile", **CEILING)
    left.plot(places, [row["loads"] for row in of], "o", color="teal", label="counted")
    for place, row in enumerate(of):
        left.annotate(
            f"{row['loads']:g}", (place, row["loads"]), (6, 5), textcoords="offset points", fontsize=SMALL
        )
    key, how = _time_of(of)
    millis = [1e3 * (row[key] or math.nan) for row in of]
    times = right.bar(places, millis, **NEEDED)
    right.bar_label(
        times, [format_seconds(row[key]) if row[key] else "" for row in of], fontsize=SMALL, bbox=LABEL
    )
    left.set(yscale="log", ylabel="loads per element of C", title=f"n = {of[0]['n']}")
    right.set(yscale="log", ylabel=f"ms ({how})", title="n = 1024")
    right.margins(y=0.15)
    for axes in (left, right):
        axes.set_xticks(places, ["naive" if tile == 1 else tile for tile in tiles])
        axes.set_xlabel("tile")
        clean(axes)
    left.legend(fontsize=SMALL, frameon=False)
    return drawn


def matmul(experiment: Experiment) -> Figure:
    """The roofline, with every rung on it."""
    return roofline(experiment.rows, experiment.recorded_on)


def speedups(experiment: Experiment) -> Figure:
    """What is claimed and what is found, on one scale."""
    rows = [row for row in experiment.rows if row["claimed"]]
    drawn = figure(title_of(experiment), 9, height(len(rows)) + 0.3)
    axes = drawn.subplots()
    for place, row in enumerate(rows):
        found = row["measured"] or row["recorded"] or row["mixed"]
        if found:
            axes.plot([row["claimed"], found], [place, place], color="gray", linewidth=1, zorder=1)
            axes.plot(
                [found], [place], "D", color="tomato", markeredgecolor="black", label="found" if not place else ""
            )
        axes.plot([row["claimed"]], [place], "o", color="teal", label="claimed" if not place else "")
        text = f"{format_number(row['claimed'])} → {format_number(found)}" if found else "not recorded yet"
        axes.annotate(
            text,
            (max(row["claimed"], found or 0), place),
            (9, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
        )
    axes.set_yticks(range(len(rows)), [row["claim"] for row in rows])
    most = max(max(row["claimed"], row["recorded"] or row["mixed"] or 0) for row in rows)
    axes.set(xscale="log", xlim=(0.9, 60 * most), ylim=(len(rows) - 0.4, -0.6), xlabel="ratio of times")
    clean(axes)
    legend(axes)
    return drawn
