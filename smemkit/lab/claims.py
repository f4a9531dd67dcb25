"""The usual claims of courses side by side with what is recorded and counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smemkit import ops
from smemkit.arrays import asarray
from smemkit.checker.check import check
from smemkit.checker.launches import as_sentence
from smemkit.devices import Device
from smemkit.lab import charts
from smemkit.lab.experiment import Column, Experiment, Row
from smemkit.lab.recording import with_recorded_values
from smemkit.lab.running import (
    counted,
    operation_seconds,
    progress,
    recorded_ceilings,
    recorded_seconds,
    reference_rows,
)
from smemkit.measure.benchmarks import measure_host
from smemkit.measure.formats import format_number
from smemkit.measure.operands import random

__all__ = ["speedups"]


@dataclass(frozen=True)
class Side:
    """One side of a comparison: an operation's kernel on a problem. `host` is plain C on one core of this machine,
    whose time is scaled from HOST's problem."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    problem: tuple[int, ...]
    options: tuple[tuple[str, Any], ...]
    host: bool = False


@dataclass(frozen=True)
class Claim:
    """A claim: `slow` takes `claimed` times as long as `fast`."""

    text: str
    claimed: float
    slow: Side
    fast: Side
    cost: str  # what is counted, and explains it: an attribute of Counts
    says: str


def _sum(kernel: str) -> Side:
    return Side("reduce", ((1_000_000,),), (1_000_000,), (("kernel", kernel),), kernel == "sequential")


def _product(**options: Any) -> Side:
    shape = (1024, 1024)
    return Side(
        "matmul", (shape, shape), (*shape, 1024), tuple(options.items()), options.get("kernel") == "sequential"
    )


def _transposed(kernel: str) -> Side:
    return Side("transpose", ((8192, 8192),), (8192, 8192), (("kernel", kernel),))


COURSES = "tutorials on shared memory, and the figures that they give for their GPU"
HARRIS = "Harris, An Efficient Matrix Transpose in CUDA C/C++, NVIDIA developer blog, 2013"
CLAIMS = [
    Claim("sum of 1 M: CPU loop / tree", 3.0 / 0.03, _sum("sequential"), _sum("tree"), "", "3.0 ms and 0.03 ms"),
    Claim("sum of 1 M: atomics / tree", 0.5 / 0.03, _sum("atomic"), _sum("tree"), "", "0.5 ms and 0.03 ms"),
    Claim(
        "matmul: CPU loops / tile 32",
        570 / 1.91,
        _product(kernel="sequential"),
        _product(tile=32),
        "",
        "570 and 1.91 ms",
    ),
    Claim(
        "matmul: naive / tile 32",
        2.42 / 1.91,
        _product(kernel="naive"),
        _product(tile=32),
        "bytes",
        "2.42 and 1.91 ms",
    ),
    Claim(
        "transpose: unpadded / padded",
        4.0,
        _transposed("unpadded"),
        _transposed("padded"),
        "wavefronts",
        "150 and 600 GB/s",
    ),
    Claim(
        "transpose: naive / padded",
        99.5 / 18.8,
        _transposed("naive"),
        _transposed("padded"),
        "sectors",
        "18.8 and 99.5 GB/s on a Tesla M2050 (Harris)",
    ),
]
# The counted problems: costs per element do not depend on the size
COUNTED = {"reduce": ((16_384,),), "matmul": ((128, 128),) * 2, "transpose": ((256, 256),)}
HOST = {"reduce": ((1_000_000,),), "matmul": ((128, 128),) * 2}  # what plain C computes here


@with_recorded_values
def speedups(device: str | None = None) -> Experiment:
    """The usual claims of courses, side by side with what this device, a reference GPU and the checker say.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures both sides of each claim. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    rows = [_claim_row(on, claim) for claim in progress(CLAIMS, "speedups")]
    rows += list(_other_rows())
    return Experiment(
        "speedups",
        "The usual claims",
        "Is what courses say about speed-ups true of today's GPUs?",
        tuple(rows),
        (
            Column("claim", "time of … / time of …"),
            Column("claimed", "ratio", "claimed", "ratio"),
            Column("counted", "ratio", "counted", "ratio"),
            Column("measured", "ratio", "measured", "ratio"),
            Column("mixed", "ratio", "mixed", "ratio"),
            Column("recorded", "ratio", "recorded", "ratio"),
        ),
        conclude_speedups,
        on.description,
        recorded_ceilings()[1],
        references=(COURSES, HARRIS, "NVIDIA H200 data sheet: 67 and 989 TFLOP/s"),
        notes=(
            "Counted are bytes, wavefronts or sectors, whose ratio would be that of the times if nothing else "
            "limited. CPU loops: plain C on one core of the host; the product's time is scaled from n = 128. "
            "Claims: " + "; ".join(f"{claim.text}, {claim.says}" for claim in CLAIMS) + ".",
        ),
        draw=charts.speedups,
    )


def _claim_row(on: Device, claim: Claim) -> Row:
    slow, fast = _recorded(claim.slow), _recorded(claim.fast)
    here = [_measured(on, side) for side in (claim.slow, claim.fast)]
    host = _host_seconds(claim.slow) if claim.slow.host else None
    return {
        "claim": claim.text,
        "claimed": claim.claimed,
        "counted": _counted_ratio(claim),
        "cost": claim.cost,
        "measured": here[0] / here[1] if all(here) else None,
        "mixed": host / fast if host and fast and not on.is_cuda else None,
        "recorded": slow / fast if slow and fast else None,
    }


def _recorded(side: Side) -> float | None:
    if side.host:
        return None
    options = dict(side.options)
    name = options.pop("kernel", "tiled")
    return recorded_seconds(side.op, side.problem, name, **options)


def _measured(on: Device, side: Side) -> float | None:
    if not on.is_cuda:
        return None
    return _host_seconds(side) if side.host else operation_seconds(side.op, side.shapes, on, **dict(side.options))


def _host_seconds(side: Side) -> float:
    """Plain C on this machine's CPU and its memory, scaled from HOST's problem."""
    shapes = HOST[side.op]
    arrays = [asarray(random(shape, "float32", seed=i), device="cpu") for i, shape in enumerate(shapes)]
    operation = getattr(ops, side.op)
    result = measure_host(lambda: operation(*arrays, kernel="sequential", device="cpu"), "cpu", max_seconds=0.1)
    work = [np.prod([float(n) for n in problem]) for problem in (side.problem, _problem(side.op, shapes))]
    return result.median * work[0] / work[1]


def _problem(op: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return (*shapes[0], shapes[1][1]) if op == "matmul" else shapes[0]


def _counted_ratio(claim: Claim) -> float | None:
    """The ratio of what the checker counts for both sides."""
    if not claim.cost:
        return None
    costs = []
    for side in (claim.slow, claim.fast):
        arrays = [np.ones(shape, np.float32) for shape in COUNTED[side.op]]
        report = check(getattr(ops, side.op), *arrays, **dict(side.options), blocks=4)
        space = "shared" if claim.cost == "wavefronts" else "global"
        found = counted(report, lambda line: line.space == space)  # noqa: B023
        costs.append(getattr(found, claim.cost))
    return costs[0] / costs[1] if costs[1] else None


def _other_rows() -> Iterator[Row]:
    """Claims about whole calls and number types, of which the GPU's side is recorded."""
    limits, _ = recorded_ceilings()
    call = next(iter(reference_rows(suite="end_to_end", op="reduce")), None)
    device = {"suite": "reduce", "op": "reduce", "dtype": "float32", "kernel": None, "cold": False}
    whole = next(iter(reference_rows(**device, shape=[268_435_456])), None)
    share = None
    if call and whole:
        share = (call["us"] / call["shape"][0]) / (whole["us"] / 268_435_456)
    yield _ratio_row("sum: NumPy in and out / kernel", None, share)
    tensor = limits and limits.f16 and limits.f16 / limits.fp32
    yield _ratio_row("FP32 units / FP16 tensor cores", 989 / 66.9, tensor)


def _ratio_row(claim: str, claimed: float | None, recorded: float | None) -> Row:
    return {
        "claim": claim,
        "claimed": claimed,
        "counted": None,
        "cost": "",
        "measured": None,
        "mixed": None,
        "recorded": recorded,
    }


def conclude_speedups(rows: Sequence[Row]) -> str:
    """The verdict of `speedups`: a claim is reproduced if the ratio is within a factor of 1.5."""
    groups: dict[str, list[str]] = {
        "reproduced": [],
        "more than claimed": [],
        "less than claimed": [],
        "untested": [],
    }
    for row in rows:
        ratio = row["measured"] or row["recorded"] or row["mixed"]
        if row["claimed"] is None:
            continue
        if ratio is None:
            groups["untested"].append(row["claim"])
            continue
        off = ratio / row["claimed"]
        key = "reproduced" if 1 / 1.5 <= off <= 1.5 else "more than claimed" if off > 1 else "less than claimed"
        host = "" if row["measured"] or row["recorded"] else " with this machine's CPU"
        found = f"{format_number(ratio)} instead of {format_number(row['claimed'])}{host}"
        groups[key].append(f"{row['claim']} ({found})")
    return as_sentence("; ".join(f"{key}: {', '.join(found)}" for key, found in groups.items() if found))
