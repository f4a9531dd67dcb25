"""Experiments on barriers: four mistakes and their right versions, and what a barrier and a launch cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from smemkit.checker.check import check
from smemkit.checker.launches import as_sentence
from smemkit.checker.report import Report
from smemkit.devices import Device
from smemkit.lab import charts
from smemkit.lab.experiment import Column, Experiment, Row
from smemkit.lab.recording import with_recorded_values
from smemkit.lab.running import kernel, kernel_source, progress, recorded_ceilings, seconds_of
from smemkit.measure.formats import format_seconds

__all__ = ["barriers"]

THREADS, BLOCKS = 64, 4
COUNT = 1000  # barriers, and launches, whose cost is compared


@with_recorded_values
def barriers(device: str | None = None) -> Experiment:
    """Barriers: what goes wrong without one, in a branch, in a loop, and across blocks; and what they cost.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures 1000 barriers and an empty launch as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    rows = [_mistake_row(*case) for case in progress(MISTAKES, "barriers")]
    rows += list(_cost_rows(on))
    return Experiment(
        "barriers",
        "Barriers",
        "What goes wrong where a barrier is missing or not all threads reach it, and what does one cost?",
        tuple(rows),
        (
            Column("mistake", "case"),
            Column("version", "version"),
            Column("fault", "found", "counted"),
            Column("barriers", "barriers", "counted", "count"),
            Column("launches", "launches", "counted", "count"),
            Column("seconds", "each", "measured", "seconds"),
            Column("recorded", "each", "recorded", "seconds"),
        ),
        conclude_barriers,
        on.description,
        recorded_ceilings()[1],
        kernel_source("barriers") + kernel_source("barrier_cost"),
        (
            "NVIDIA, CUDA C++ Programming Guide, Synchronization Functions: all threads of a block must reach it",
            "CUDA's memory model: without a barrier the order of two threads' accesses is undefined",
        ),
        (
            f"found: by the checker, in {BLOCKS} blocks of {THREADS} threads. The time of a launch: of an empty "
            "kernel on the GPU.",
        ),
        charts.marks,
    )


# the mistake, the version, kernels in the order of their launches
MISTAKES = [
    ("no barrier", "wrong", ["missing_wrong"]),
    ("no barrier", "right", ["missing_right"]),
    ("in a branch", "wrong", ["branch_wrong"]),
    ("in a branch", "right", ["branch_right"]),
    ("in a loop", "wrong", ["loop_wrong"]),
    ("in a loop", "right", ["loop_right"]),
    ("across blocks", "wrong", ["blocks_wrong"]),
    ("across blocks", "2 launches", ["blocks_first_launch", "blocks_second_launch"]),
    ("across blocks", "grid barrier", ["blocks_grid_barrier"]),
]


def _mistake_row(mistake: str, version: str, names: Sequence[str]) -> Row:
    across = mistake == "across blocks"
    reports = [_check(name, across) for name in names]
    faults = [fault for report in reports for fault in report.faults]
    return {
        "mistake": mistake,
        "version": version,
        "fault": faults[0].title if faults else "nothing",
        "faults": len(faults),
        "lines": [fault.line for fault in faults],
        "barriers": sum(launch.barriers for report in reports for launch in report.launches),
        "launches": sum(len(report.launches) for report in reports),
        "seconds": None,
        "recorded": None,
    }


def _check(name: str, across: bool) -> Report:
    blocks = BLOCKS if across else 1
    arrays = [np.zeros(THREADS * blocks, np.int32), np.zeros(blocks, np.int32)]
    return check(kernel("barriers", name)[blocks, THREADS], *arrays[: 1 + across])


def _cost_rows(on: Device) -> Iterator[Row]:
    """1000 barriers in one launch against 1000 launches."""
    which, x = kernel("barrier_cost", "many_barriers"), np.zeros(THREADS, np.int32)
    report = check(which[1, THREADS], x, COUNT)
    empty = seconds_of(which, (1, THREADS), on, [x, 0])
    whole = seconds_of(which, (1, THREADS), on, [x, COUNT])
    common: dict[str, Any] = {"version": "", "fault": "", "faults": len(report.faults)}
    yield common | {
        "mistake": "one barrier",
        "barriers": report.launches[0].barriers,
        "launches": 1,
        "seconds": whole and empty and max(0.0, whole - empty) / COUNT,
        "recorded": None,
    }
    yield common | {
        "mistake": "one launch",
        "barriers": 0,
        "launches": 1,
        "seconds": empty,
        "recorded": None,
    }


def conclude_barriers(rows: Sequence[Row]) -> str:
    """The verdict of `barriers`."""
    wrong = [row for row in rows if row["version"] == "wrong"]
    right = [row for row in rows if row["version"] not in ("wrong", "")]
    missed, accused = (
        [r["mistake"] for r in wrong if not r["faults"]],
        [r["mistake"] for r in right if r["faults"]],
    )
    found = [f"{row['mistake']} by {row['fault']}" for row in wrong if row["faults"]]
    text = f"the checker finds {len(found)} of {len(wrong)} mistakes ({', '.join(found)})"
    text += f", misses {', '.join(missed)}" if missed else ""
    text += f", and wrongly accuses {', '.join(accused)}" if accused else " and passes every right version"
    two = [row for row in right if row["launches"] == 2 and not row["faults"]]
    text += "; across blocks a second launch repairs it" if two else ""
    barrier, launch = rows[-2], rows[-1]
    if barrier["seconds"] and launch["seconds"]:
        text += (
            f"; measured, a barrier takes {format_seconds(barrier['seconds'])} and a launch "
            f"{launch['seconds'] / barrier['seconds']:.0f} times as long"
        )
    elif launch["recorded"] and barrier["recorded"]:
        text += (
            f"; recorded, a barrier takes {format_seconds(barrier['recorded'])} and a launch "
            f"{launch['recorded'] / barrier['recorded']:.0f} times as long"
        )
    return as_sentence(text)
