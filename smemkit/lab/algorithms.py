"""Experiments on whole algorithms: first kernels, the tree reduction, the tiled matmul, and its ladder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from smemkit import ops
from smemkit.arrays import asarray
from smemkit.checker.check import check
from smemkit.checker.launches import as_sentence
from smemkit.devices import Device
from smemkit.lab import charts
from smemkit.lab.experiment import Column, Experiment, Row, known_numbers
from smemkit.lab.recording import with_recorded_values
from smemkit.lab.running import (
    counted,
    kernel,
    kernel_source,
    marked,
    operation_seconds,
    progress,
    recorded_problem,
    recorded_row,
    recorded_seconds,
    seconds_of,
)
from smemkit.ladder import product_work
from smemkit.measure.ceilings import ceilings
from smemkit.measure.formats import format_number, format_seconds
from smemkit.measure.prediction import predict
from smemkit.table.kernel_table import KernelInfo, ladder_of, source

__all__ = ["first_kernels", "matmul", "mistakes", "reduction", "tiling", "tree"]

HARRIS = "Harris, Optimizing Parallel Reduction in CUDA, NVIDIA 2007"
BOEHM = "Boehm, How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance, 2022"
ELEMENT = 4  # bytes of a float32


def _global(access: str) -> Any:
    return lambda line: (line.space, line.access) == ("global", access)


# ---- first kernels ----

ELEMENTS = 100_000


@with_recorded_values
def first_kernels(device: str | None = None) -> Experiment:
    """Add one to 100 000 elements by one thread, one block and many; and a matmul by one block.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures each kernel as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    rows = [_add_one_row(on, *case) for case in progress(FIRST, "first_kernels")]
    rows += [_one_block_row(on, n) for n in (16, 32)]
    return Experiment(
        "first_kernels",
        "First kernels",
        "What do threads and blocks add to a first kernel?",
        tuple(rows),
        (
            Column("how", "kernel"),
            Column("threads", "threads", "given", "count"),
            Column("blocks", "blocks", "given", "count"),
            Column("requests", "requests", "counted", "count"),
            Column("lanes", "lanes", "counted", "number"),
            Column("steps", "in turn", "counted", "number"),
            Column("seconds", "time", "measured", "seconds"),
        ),
        conclude_first_kernels,
        on.description,
        source=kernel_source("first"),
        references=(
            "Harris, An Even Easier Introduction to CUDA, NVIDIA blog 2017: one thread, one block, many blocks",
        ),
        notes=("lanes: at work, of 32. in turn: loads of global memory that a thread makes one after the other.",),
        draw=charts.first_kernels,
    )


FIRST = [
    ("add one, one thread", "add_one_by_one_thread", 1, 1),
    ("add one, one block", "add_one_by_one_block", 1, 256),
    ("add one, many blocks", "add_one_by_many_blocks", -(-ELEMENTS // 256), 256),
]


def _add_one_row(on: Device, how: str, name: str, blocks: int, threads: int) -> Row:
    which, n = kernel("first", name), ELEMENTS if threads > 1 else ELEMENTS // 10
    report = check(which[blocks, threads], np.zeros(n, np.float32), n, blocks="all")  # the last is partly filled
    found, times = counted(report, marked("work", "load")), ELEMENTS / n
    args = [np.zeros(ELEMENTS, np.float32), ELEMENTS]
    return {
        "how": how,
        "threads": threads * blocks,
        "blocks": blocks,
        "requests": round(found.requests * times),
        "lanes": found.lanes_per_request,
        "steps": math.ceil(found.lanes * times / (threads * blocks)),
        "seconds": seconds_of(which, (blocks, threads), on, args),
    }


def _one_block_row(on: Device, n: int) -> Row:
    which, c = kernel("first", "matmul_by_one_block"), np.zeros((n, n), np.float32)
    found = counted(check(which[1, (n, n)], c, c, c.copy(), n), _global("load"))
    return {
        "how": f"matmul, n = {n}, one block",
        "threads": n * n,
        "blocks": 1,
        "requests": round(found.requests),
        "lanes": found.lanes_per_request,
        "steps": round(found.lanes / n**2),
        "seconds": seconds_of(which, (1, (n, n)), on, [c, c, c, n]),
    }


def conclude_first_kernels(rows: Sequence[Row]) -> str:
    """The verdict of `first_kernels`."""
    one, block, many, *products = rows
    text = (
        f"one thread makes {one['requests']:,} requests with {one['lanes']:.3g} lane at work, and one block "
        f"{block['requests']:,} with {block['lanes']:.3g}, but each of its threads still makes {block['steps']:,} "
        f"loads in turn; with {many['blocks']:,} blocks a thread makes {many['steps']:,}"
    )
    largest = max(products, key=lambda row: row["threads"])
    text += (
        f"; a matmul by one block ends at {largest['threads']:,} threads, each of which loads {largest['steps']} "
        "elements"
    )
    (slow, fast), how = known_numbers((one, many), "seconds")
    if slow and fast:
        text += f"; {how}, many blocks are {slow / fast:,.0f} times as fast as one thread"
    return as_sentence(text)


# ---- the tree reduction ----

SUMMED = (1_000_000,)  # recorded, and measured on a GPU
CHECKED = 65_536


@with_recorded_values
def reduction(device: str | None = None) -> Experiment:
    """The reduction ladder: launches, barriers, lanes at work and conflicts of each rung, and its time.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures the sum of a million floats as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on, records = Device(device), recorded_problem("reduce", SUMMED)
    rungs = [rung for rung in ladder_of("reduce") if rung.needs != "host"]
    return Experiment(
        "reduction",
        "Tree reduction",
        "What does each step of the ladder save a sum of many numbers?",
        tuple(_reduction_row(on, rung) for rung in progress(rungs, "reduction")),
        (
            Column("rung", "rung"),
            Column("launches", "launches", "counted", "count"),
            Column("barriers", "barriers", "counted", "number"),
            Column("lanes", "lanes", "counted", "number"),
            Column("wavefronts", "wavefronts", "counted", "number"),
            Column("conflicts", "conflicts", "counted", "number"),
            Column("seconds", "time", "measured", "seconds"),
            Column("recorded", "time", "recorded", "seconds"),
        ),
        conclude_reduction,
        on.description,
        records and records.where,
        "\n".join(source("reduce", rung.name) for rung in rungs),
        (f"{HARRIS}: divergent, conflicting, sequential, first add on load, shuffles, vectorised",),
        (
            f"Counted for n = {CHECKED:,}: barriers, wavefronts and conflicts per 1,024 elements, lanes at work "
            "in requests "
            f"to shared memory (to global memory if there are none). Times are for n = {SUMMED[0]:,}.",
        ),
        charts.reduction,
    )


def _reduction_row(on: Device, rung: KernelInfo) -> Row:
    report = check(ops.reduce, np.ones(CHECKED, np.float32), kernel=rung.name)
    everything, shared = counted(report), counted(report, lambda line: line.space == "shared")
    at_work, per = shared if shared.requests else everything, CHECKED / 1024
    return {
        "rung": rung.name,
        "launches": everything.launches,
        "barriers": everything.barriers / per,
        "lanes": at_work.lanes_per_request,
        "wavefronts": shared.wavefronts / per,
        "conflicts": shared.conflicts / per,
        "seconds": operation_seconds("reduce", [SUMMED], on, kernel=rung.name),
        "recorded": recorded_seconds("reduce", SUMMED, rung.name),
    }


def conclude_reduction(rows: Sequence[Row]) -> str:
    """The verdict of `reduction`."""
    trees = [row for row in rows if row["wavefronts"] > 32] or rows  # those that add in shared memory
    lanes = min(trees, key=lambda row: row["lanes"])
    worst = max(rows, key=lambda row: row["conflicts"])
    least = min((row for row in rows if row["wavefronts"]), key=lambda row: row["wavefronts"])
    conflict = f"{worst['rung']} has the most conflicts" if worst["conflicts"] else "no rung has conflicts"
    text = (
        f"of the rungs that add in shared memory {lanes['rung']} keeps only {lanes['lanes']:.3g} of 32 lanes at "
        f"work, {conflict}, and of all rungs {least['rung']} needs the fewest wavefronts, "
        f"{least['wavefronts']:.3g} per 1,024 elements"
    )
    numbers, how = known_numbers(rows, "seconds")
    timed = [(seconds, row["rung"]) for seconds, row in zip(numbers, rows, strict=True) if seconds]
    if len(timed) > 1:
        (slow, slowest), (fast, fastest) = max(timed), min(timed)
        text += (
            f"; {how}, {slowest} takes {format_seconds(slow)} and {fastest} {format_seconds(fast)}, "
            f"{slow / fast:,.0f} times less"
        )
    return as_sentence(text)


@with_recorded_values
def tree(device: str | None = None, *, block_size: int = 256) -> Experiment:
    """The steps of a tree reduction in one block: who works, and conflicts, for three ways to divide it.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures nothing more: a step is too short. The default device if None.
    block_size : int
        Threads of the block: a power of two, 64 … 1024.

    Returns
    -------
    Experiment
    """
    if block_size not in (64, 128, 256, 512, 1024):
        raise ValueError(f"block_size: expected 64, 128, 256, 512 or 1024, got {block_size!r}")
    on, steps = Device(device), int(math.log2(block_size))
    cases = [(name, step) for name in ("divergent", "conflicting", "sequential") for step in range(steps)]
    return Experiment(
        "tree",
        "The steps of a tree reduction",
        f"Which threads of a block of {block_size} work in each step of its sum?",
        tuple(_tree_row(block_size, steps, *case) for case in progress(cases, "tree")),
        (
            Column("way", "way"),
            Column("step", "step", "given", "count"),
            Column("distance", "distance", "given", "count"),
            Column("active", "at work", "counted", "count"),
            Column("warps", "warps", "counted", "count"),
            Column("lanes", "lanes", "counted", "number"),
            Column("wavefronts", "wavefronts", "counted", "count"),
            Column("degree", "n-way", "counted", "count"),
        ),
        conclude_tree,
        on.description,
        source=kernel_source("tree"),
        references=(HARRIS,),
        notes=(
            "at work, warps: threads that add, and their warps; lanes: per warp; wavefronts: of loads and store; "
            "n-way: the worst bank conflict.",
        ),
        draw=charts.tree,
    )


def _tree_row(block_size: int, steps: int, way: str, step: int) -> Row:
    """One step; `sequential` halves the distance, the others double it."""
    distance = 2 ** (steps - 1 - step if way == "sequential" else step)
    x = np.ones(block_size, np.float32)
    report = check(kernel("tree", way)[1, block_size], x, x.copy(), distance)
    stores = counted(report, marked(access="store"))
    both = counted(report, marked())
    return {
        "way": way,
        "step": step + 1,
        "distance": distance,
        "active": round(stores.lanes),
        "warps": round(stores.requests),
        "lanes": stores.lanes_per_request,
        "wavefronts": round(both.wavefronts),
        "degree": both.degree,
    }


def _worst(steps: Sequence[Row]) -> str:
    degree = max(row["degree"] for row in steps)
    return f"conflicts of up to {degree}-way" if degree > 1 else "no conflict"


def conclude_tree(rows: Sequence[Row]) -> str:
    """The verdict of `tree`."""
    ways: dict[str, list[Row]] = {}
    for row in rows:
        ways.setdefault(row["way"], []).append(row)
    some = next(iter(ways.values()))
    words = [
        f"{way}: {sum(row['warps'] for row in steps)} warps at work, {sum(row['wavefronts'] for row in steps)} "
        f"wavefronts, {_worst(steps)}"
        for way, steps in ways.items()
    ]
    threads = 2 * some[0]["active"]
    right = "" if 2 ** len(some) == threads else "not "
    return as_sentence(f"{len(some)} steps are {right}log2 {threads}; over all of them, {'; '.join(words)}")


# ---- the tiled matmul ----

TILED = (1024, 1024, 1024)  # recorded, and measured on a GPU
SIDE = 64


@with_recorded_values
def tiling(device: str | None = None) -> Experiment:
    """Tiling: global traffic of a matmul for tiles from 2 to 32, counted against 2 n / tile, and its time.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures n = 1024 as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on, records = Device(device), recorded_problem("matmul", TILED)
    cases = [(4, 1), (4, 2), (SIDE, 1), *((SIDE, tile) for tile in (2, 4, 8, 16, 32)), (65, 16), (65, 32)]
    return Experiment(
        "tiling",
        "Tiled matmul",
        "How many elements of global memory does a matmul load per element of its result?",
        tuple(_tiling_row(on, *case) for case in progress(cases, "tiling")),
        (
            Column("n", "n", "given", "count"),
            Column("how", "kernel"),
            Column("predicted", "loads", "predicted", "number"),
            Column("loads", "loads", "counted", "number"),
            Column("sectors", "bytes moved", "counted", "number"),
            Column("wavefronts", "wavefronts", "counted", "number"),
            Column("seconds", "n = 1024", "measured", "seconds"),
            Column("recorded", "n = 1024", "recorded", "seconds"),
        ),
        conclude_tiling,
        on.description,
        records and records.where,
        source("matmul", "naive") + source("matmul", "tiled"),
        (
            "NVIDIA, CUDA C++ Programming Guide, Shared Memory: the tiled matrix multiplication",
            "the usual rule: 2 n / tile loads per element of the result, with n / tile rounded up where a tile "
            "hangs over",
        ),
        (
            "loads, bytes moved, wavefronts: of both operands, per element of the result; n = 4 is the "
            "walk-through, n = 65 "
            "is no multiple of the tile: threads outside the matrices load nothing.",
        ),
        charts.tiling,
    )


def _tiling_row(on: Device, n: int, tile: int) -> Row:
    """`tile` 1 is the naive kernel."""
    options: dict[str, Any] = {"tile": tile} if tile > 1 else {"kernel": "naive"}
    a = np.ones((n, n), np.float32)
    report = check(ops.matmul, a, a, **options, blocks="all" if n % tile else "auto")
    loads = counted(report, _global("load"))
    timed = n == SIDE
    recorded = (
        recorded_seconds("matmul", TILED, "tiled", tile=tile)
        if tile > 1
        else recorded_seconds("matmul", TILED, "naive")
    )
    return {
        "n": n,
        "tile": tile,
        "how": f"tile {tile}" if tile > 1 else "naive",
        "predicted": 2 * -(-n // tile),
        "loads": loads.lanes / n**2,
        "sectors": loads.sector_bytes / n**2,
        "wavefronts": counted(report, lambda line: line.space == "shared").wavefronts / n**2,
        "seconds": operation_seconds("matmul", [TILED[:2]] * 2, on, **options) if timed else None,
        "recorded": recorded if timed else None,
    }


def conclude_tiling(rows: Sequence[Row]) -> str:
    """The verdict of `tiling`."""
    off = [row for row in rows if abs(row["loads"] - row["predicted"]) > 0.01 * row["predicted"]]
    text = (
        "every element of the result takes 2 n / tile loads, with n / tile rounded up, as counted in all "
        f"{len(rows)} cases"
        if not off
        else f"2 n / tile is not what is counted: n = {off[0]['n']}, {off[0]['how']}, {off[0]['loads']:.3g} loads"
    )
    numbers, how = known_numbers(rows, "seconds")
    timed = {row["tile"]: (seconds, row) for seconds, row in zip(numbers, rows, strict=True) if seconds}
    if {1, 16, 32} <= set(timed):
        (naive, first), (tiled, large) = timed[1], timed[32]
        (fast, fastest), (slow, slowest) = (
            choose(timed.values(), key=lambda pair: pair[0]) for choose in (min, max)
        )
        text += (
            f"; {how}, tile 32 loads {first['loads'] / large['loads']:.3g} times less than naive but is "
            f"{naive / tiled:.2f} times as fast, {fastest['how']} is the fastest, {format_seconds(fast)}, and "
            f"{slowest['how']} the slowest, {format_seconds(slow)}"
        )
    return as_sentence(text)


# ---- mistakes in the tiled matmul ----


@with_recorded_values
def mistakes(device: str | None = None) -> Experiment:
    """Two mistakes in the tiled matmul: a + for a *, and no guard at the edges.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    cases = [(name, n) for name in ("right", "plus_for_times", "missing_guard") for n in (16, 13)]
    return Experiment(
        "mistakes",
        "Mistakes in a tiled matmul",
        "Which mistakes does the checker find, and which does only a comparison of the results?",
        tuple(_wrong_row(*case) for case in progress(cases, "mistakes")),
        (
            Column("how", "kernel"),
            Column("n", "n", "given", "count"),
            Column("fault", "found", "counted"),
            Column("faults", "faults", "counted", "count"),
            Column("wrong", "wrong elements", "computed", "count"),
        ),
        conclude_mistakes,
        on.description,
        source=kernel_source("mistakes"),
        references=("A right kernel with wrong numbers has no fault: compare the result with NumPy's.",),
        notes=(
            "Tiles of 8: n = 13 is no multiple. A kernel with illegal accesses has no result on the CPU device.",
        ),
        draw=charts.marks,
    )


def _wrong_row(name: str, n: int) -> Row:
    which, blocks = kernel("mistakes", name), -(-n // 8)
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 9, (2, n, n)).astype(np.float32)
    launch = which[(blocks, blocks), (8, 8)]
    report = check(launch, a, b, np.zeros((n, n), np.float32), n)
    faults, wrong = report.faults, None
    if not faults:
        arrays = [asarray(x, device="cpu") for x in (a, b, np.zeros((n, n), np.float32))]
        launch(*arrays, n)
        wrong = int((arrays[2].numpy() != a @ b).sum())
    found = f"{faults[0].title}" if faults else "nothing"
    return {"how": name.replace("_", " "), "n": n, "fault": found, "faults": len(faults), "wrong": wrong}


def conclude_mistakes(rows: Sequence[Row]) -> str:
    """The verdict of `mistakes`."""
    found = [f"{row['how']} at n = {row['n']} ({row['fault']})" for row in rows if row["faults"]]
    silent = [f"{row['how']} at n = {row['n']}" for row in rows if not row["faults"] and row["wrong"]]
    right = [f"{row['how']} at n = {row['n']}" for row in rows if not row["faults"] and row["wrong"] == 0]
    words = [f"the checker finds {', '.join(found)}" if found else "the checker finds nothing"]
    words += [f"only wrong results reveal {', '.join(silent)}"] if silent else []
    words += [f"{', '.join(right)} compute the product"] if right else []
    return as_sentence("; ".join(words))


# ---- the ladder of matmul ----

PRODUCT = (4096, 4096, 4096)
SMALL = (128, 128, 128)


@with_recorded_values
def matmul(device: str | None = None) -> Experiment:
    """The ladder of matmul in float32: what each rung moves and what limits it, and the speed that it reaches.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures n = 4096 as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on, records = Device(device), recorded_problem("matmul", PRODUCT)
    rungs = [rung for rung in ladder_of("matmul", "float32") if rung.needs != "host"]
    return Experiment(
        "matmul",
        "The ladder of matmul",
        "What takes a matmul from the first kernel to the limit of the chip?",
        tuple(_matmul_row(on, rung) for rung in progress(rungs, "matmul")),
        (
            Column("rung", "rung"),
            Column("moved", "bytes moved", "counted", "number"),
            Column("wavefronts", "wavefronts", "counted", "number"),
            Column("intensity", "FLOP/byte", "counted", "number"),
            Column("predicted", "TFLOP/s", "predicted", "number"),
            Column("limit", "limit", "predicted"),
            Column("tflops", "TFLOP/s", "measured", "number"),
            Column("recorded", "TFLOP/s", "recorded", "number"),
        ),
        conclude_matmul,
        on.description,
        records and records.where,
        "\n".join(source("matmul", rung.name) for rung in rungs),
        (f"{BOEHM}: ten kernels",),
        (
            "bytes moved, wavefronts: of global and of shared memory, per 32 multiply-adds at n = 128. "
            "FLOP/byte: per byte of global memory. predicted: what an H200 would reach if it made these "
            "accesses as written, n = 4096, and what limits it; the compiler merges some, so that a kernel "
            "may be faster. shared: shared memory and L1, which are one memory.",
        ),
        charts.matmul,
    )


def _matmul_row(on: Device, rung: KernelInfo) -> Row:
    m, n, k = SMALL
    report = check(
        ops.matmul,
        np.ones((m, k), np.float32),
        np.ones((k, n), np.float32),
        kernel=rung.name,
        blocks=_blocks(rung),
    )
    moved = counted(report, lambda line: line.space == "global").sector_bytes
    prediction = predict(product_work(report, SMALL, PRODUCT))
    flops, seconds = 2 * math.prod(PRODUCT), operation_seconds("matmul", [PRODUCT[:2]] * 2, on, kernel=rung.name)
    row = recorded_row("matmul", PRODUCT, rung.name)
    return {
        "rung": rung.name,
        "idea": rung.summary,
        "moved": moved / math.prod(SMALL) * 32,
        "wavefronts": counted(report, lambda line: line.space == "shared").wavefronts / math.prod(SMALL) * 32,
        "intensity": 2 * math.prod(SMALL) / moved,
        "predicted": flops / prediction.seconds / 1e12,
        "limit": prediction.limit,
        "tflops": seconds and flops / seconds / 1e12,
        "recorded": row and row["value"],
        "fraction": row and row["ceiling_fraction"],
        "share": seconds and flops / seconds / ceilings(on.name).fp32,
    }


def _blocks(rung: KernelInfo) -> int | str:
    """All blocks are alike, and those of the first rungs have a thousand threads each: a few are enough."""
    return 4 if rung.name in ("naive", "tiled") else "auto"


def conclude_matmul(rows: Sequence[Row]) -> str:
    """The verdict of `matmul`."""
    first, last = rows[0], max(rows, key=lambda row: row["intensity"])
    text = (
        f"from {first['rung']} to {last['rung']} the operations per byte of global memory rise from "
        f"{first['intensity']:.3g} to {last['intensity']:.3g}"
    )
    for key, how, of_ceiling in (("tflops", "measured", "share"), ("recorded", "recorded", "fraction")):
        timed = [row for row in rows if row[key]]
        if len(timed) < 2:
            continue
        best, slow = max(timed, key=lambda row: row[key]), min(timed, key=lambda row: row[key])
        jumps = {after["rung"]: after[key] / before[key] for before, after in pairwise(timed)}
        jump = max(jumps, key=jumps.__getitem__)
        of = f", {100 * best[of_ceiling]:.0f} % of the ceiling" if best[of_ceiling] else ""
        return as_sentence(
            f"{text}; {how}, {slow['rung']} reaches {format_number(slow[key])} and {best['rung']} "
            f"{format_number(best[key])} "
            f"TFLOP/s{of}, and the largest step is {jump}, {jumps[jump]:.2f} times"
        )
    return as_sentence(text)
