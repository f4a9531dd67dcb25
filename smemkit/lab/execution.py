"""Experiments on how threads run: occupancy, parallelism, divergence, precision, asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

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
    progress,
    recorded_ceilings,
    recorded_problem,
    recorded_seconds,
    seconds_of,
)
from smemkit.measure.formats import format_number, format_seconds
from smemkit.measure.occupancy import occupancy as resident_blocks

__all__ = ["async_copy", "divergence", "occupancy", "parallelism", "precision"]

CAPABILITY = "9.0"  # of the reference GPU
GUIDE = "NVIDIA, CUDA C++ Programming Guide"
KIB = 1024


# ---- occupancy ----


@with_recorded_values
def occupancy(device: str | None = None, *, block_size: int = 256) -> Experiment:
    """Occupancy: resident blocks for registers and shared memory, and which of them limits.

    Parameters
    ----------
    device : str, optional
        "cuda:0": for that GPU. On the CPU device for compute capability 9.0. The default device if None.
    block_size : int
        Threads per block.

    Returns
    -------
    Experiment

    Examples
    --------
    >>> from smemkit import lab
    >>> lab.occupancy("cpu").rows[0]["blocks"]
    8
    """
    on = Device(device)
    where = {"device": on.name} if on.is_cuda else {"capability": CAPABILITY}
    cases = [(registers, 0) for registers in (32, 40, 64, 96, 128, 168, 255)]
    cases += [(32, kib) for kib in (8, 16, 32, 48, 64, 100, 200)]
    rows = [_occupancy_row(block_size, registers, kib, where) for registers, kib in cases]
    return Experiment(
        "occupancy",
        "Occupancy",
        f"How many blocks of {block_size} threads are resident on a multiprocessor, and what limits them?",
        tuple(rows),
        (
            Column("registers", "registers", "given", "count"),
            Column("kib", "shared, KB", "given", "count"),
            Column("blocks", "blocks", "predicted", "count"),
            Column("warps", "warps", "predicted", "count"),
            Column("fraction", "occupancy", "predicted", "percent"),
            Column("limited_by", "limited by", "predicted"),
        ),
        conclude_occupancy,
        on.description,
        references=(
            f"{GUIDE}, Technical Specifications per Compute Capability",
            "cuda_occupancy.h of the CUDA toolkit",
        ),
        notes=(f"For {on.description if on.is_cuda else f'compute capability {CAPABILITY}'}.",),
        draw=charts.occupancy,
    )


def _occupancy_row(block_size: int, registers: int, kib: int, where: dict[str, Any]) -> Row:
    fits = resident_blocks(block_size=block_size, registers=registers, shared_bytes=kib * KIB, **where)
    row = {
        "registers": registers,
        "kib": kib,
        "blocks": fits.blocks,
        "warps": fits.warps,
        "max_warps": fits.max_warps,
    }
    return row | {"fraction": fits.fraction, "limited_by": fits.limited_by}


def conclude_occupancy(rows: Sequence[Row]) -> str:
    """The verdict of `occupancy`."""
    words = []
    for key, unit, what in (
        ("registers", "registers per thread", "registers"),
        ("kib", "KB of shared memory", "shared memory"),
    ):
        other = "kib" if key == "registers" else "registers"
        few = min(row[other] for row in rows)
        of = [row for row in rows if row[other] == few and (key == "registers" or row[key])]
        full = [row[key] for row in of if row["fraction"] == 1]
        last = max(of, key=lambda row: row[key])
        up_to = f"full up to {max(full)} {unit}" if full else f"never full with {what}"
        words.append(
            f"{up_to}, and {100 * last['fraction']:.3g} % with {last[key]}, limited by {last['limited_by']}"
        )
    return as_sentence("the multiprocessor is " + "; it is ".join(words))


# ---- thread-level against instruction-level parallelism ----

LATENCY = 4  # cycles of a dependent multiplication
PRODUCTS = 1 << 14  # per thread


@with_recorded_values
def parallelism(device: str | None = None) -> Experiment:
    """Many warps, or independent chains in each: what keeps a multiprocessor's FP32 units busy.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures a chain of products, split into 1 to 8 independent ones. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    cases = [(warps, chains) for warps in (1, 2, 4, 8) for chains in (1, 2, 4, 8)]
    return Experiment(
        "parallelism",
        "Thread-level and instruction-level parallelism",
        "What hides the latency of a long chain of products: more warps, or independent chains in each thread?",
        tuple(_parallelism_row(on, *case) for case in progress(cases, "parallelism")),
        (
            Column("warps", "warps", "given", "count"),
            Column("chains", "chains", "given", "count"),
            Column("steps", "dependent steps", "computed", "count"),
            Column("busy", "units busy", "predicted", "percent"),
            Column("seconds", "time", "measured", "seconds"),
            Column("rate", "per second", "measured", "tera"),
        ),
        conclude_parallelism,
        on.description,
        source=kernel_source("parallelism"),
        references=(
            "Volkov, Better Performance at Lower Occupancy, GTC 2010",
            "Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018: 4 cycles",
        ),
        notes=(
            f"warps: per scheduler; chains: per thread. units busy: warps × chains / {LATENCY}, at most 100 %, "
            f"because a dependent product waits {LATENCY} "
            "cycles (Little's law).",
        ),
        draw=charts.parallelism,
    )


def _parallelism_row(on: Device, warps: int, chains: int) -> Row:
    """A block per multiprocessor, with so much shared memory that no second one fits; four schedulers."""
    which, threads, count = kernel("parallelism", f"products_{chains}"), 128 * warps, 64
    out = asarray(np.zeros(threads, np.float32), device="cpu")
    which[1, threads](np.float32(2), count, out)  # each chain: (1 + thread) * 2 ** (count / chains)
    steps = round(float(np.log2(out.numpy()[0]))) // chains
    seconds, blocks = None, on.multiprocessors
    if on.is_cuda:
        args = [np.float32(1), PRODUCTS, np.zeros(blocks * threads, np.float32)]
        seconds = seconds_of(which, (blocks, threads, on.shared_per_block_optin - KIB), on, args)
    row = {"warps": warps, "chains": chains, "steps": steps * PRODUCTS // count}
    rate = seconds and blocks * threads * PRODUCTS / seconds
    return row | {"busy": min(1, warps * chains / LATENCY), "seconds": seconds, "rate": rate}


def conclude_parallelism(rows: Sequence[Row]) -> str:
    """The verdict of `parallelism`."""
    at = {(row["warps"], row["chains"]): row for row in rows}
    enough = [
        f"{row['warps']} × {row['chains']}"
        for row in rows
        if row["busy"] == 1 and row["warps"] * row["chains"] == LATENCY
    ]
    text = (
        f"one warp with one chain keeps {100 * at[1, 1]['busy']:.3g} % of the units busy; {' or '.join(enough)} "
        "warps × "
        f"chains fill them, so independent chains replace warps"
        if enough
        else f"no combination of {LATENCY} chains fills the units"
    )
    numbers, how = known_numbers(rows, "rate")
    if all(numbers):
        best, rates = rows[numbers.index(max(numbers))], dict(zip(at, numbers, strict=True))
        fewer = rates[1, 4] / rates[1, 1], rates[4, 1] / rates[1, 1]
        text += (
            f"; {how}, 4 chains in one warp are {fewer[0]:.1f} and 4 warps with one chain {fewer[1]:.1f} "
            "times as fast "
            f"as one, and {best['warps']} × {best['chains']} is best"
        )
    return as_sentence(text)


# ---- divergence ----


@with_recorded_values
def divergence(device: str | None = None) -> Experiment:
    """Divergent branches: lanes at work where a branch depends on data, on the lane, or on the warp.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures each kernel on large inputs as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    return Experiment(
        "divergence",
        "Divergence",
        "How many lanes of a warp work where a branch divides them, and does it pay to compute without one?",
        tuple(_divergence_row(on, *case) for case in progress(DIVERGENCE, "divergence")),
        (
            Column("how", "code"),
            Column("requests", "requests", "counted", "count"),
            Column("lanes", "lanes", "counted", "number"),
            Column("ideal", "ideal", "counted", "count"),
            Column("right", "right", "computed"),
            Column("seconds", "time", "measured", "seconds"),
        ),
        conclude_divergence,
        on.description,
        source=kernel_source("divergence"),
        references=(
            f"{GUIDE}, Hardware Implementation, SIMT Architecture: the paths of a warp run one after the other",
        ),
        notes=(
            "lanes: at work, of 32. ideal: requests of full warps. requests: of the marked line, per column of "
            "64 rows in 4 warps, or of both paths of 16 steps. A "
            "compiler "
            "may turn a short branch into a selection: then the time is that of the branchless code.",
        ),
        draw=charts.divergence,
    )


LARGE = 1 << 16, 512  # columns and rows for a GPU
# how, kernel, values of the data
DIVERGENCE = [
    ("if (a < 50) s += a; random data", "branch", "random"),
    ("if (a < 50) s += a; sorted data", "branch", "sorted"),
    ("s += (a < 50) * a; random data", "branchless", "random"),
    ("two paths, by the lane's parity", "paths_by_lane", None),
    ("two paths, by the warp's parity", "paths_by_warp", None),
]


def _divergence_row(on: Device, how: str, name: str, data: str | None) -> Row:
    which, threads, rows = kernel("divergence", name), 128, 64
    args = _divergence_arguments(data, threads, rows)
    found = counted(check(which[1, threads], *args), marked(access="load"))
    lanes = found.lanes / max(1, found.requests)
    large = _divergence_arguments(data, LARGE[0], LARGE[1]) if on.is_cuda else []
    return {
        "how": how,
        "requests": round(found.requests),
        "lanes": lanes,
        "ideal": -(-round(found.lanes) // 32),
        "right": _is_right(which, threads, args, data),
        "seconds": seconds_of(which, (LARGE[0] // threads, threads), on, large),
    }


def _divergence_arguments(data: str | None, columns: int, rows: int) -> list[Any]:
    if data is None:
        return [np.zeros(columns, np.float32), 16]
    a = np.random.default_rng(0).integers(0, 100, (rows, columns), np.int32)
    if data == "sorted":
        a.sort(axis=1)
    return [a, np.zeros(columns, np.int32), columns, rows]


def _is_right(which: Any, threads: int, args: list[Any], data: str | None) -> str | None:
    """Whether the sums are NumPy's; the two paths compute nothing that matters."""
    if data is None:
        return None
    sums = asarray(args[1], device="cpu")
    which[1, threads](asarray(args[0], device="cpu"), sums, *args[2:])
    return "yes" if np.array_equal(sums.numpy(), np.where(args[0] < 50, args[0], 0).sum(axis=0)) else "no"


def conclude_divergence(rows: Sequence[Row]) -> str:
    """The verdict of `divergence`."""
    branch, ordered, branchless, lane, warp = rows
    wrong = [row["how"] for row in rows if row["right"] == "no"]
    if wrong:
        return f"{', '.join(wrong)}: the sums are wrong."
    text = (
        f"the branch leaves {branch['lanes']:.3g} of 32 lanes at work on random data and {ordered['lanes']:.3g} "
        "on sorted "
        f"data, the branchless sum {branchless['lanes']:.3g}; paths by the lane's parity make {lane['requests']} "
        "requests "
        f"where paths by warp make {warp['requests']}, {lane['requests'] / warp['requests']:.3g} times as many"
    )
    numbers, how = known_numbers(rows, "seconds")
    if all(numbers):
        text += (
            f"; {how}, the branch takes {numbers[0] / numbers[2]:.2f} times as long as the "
            f"branchless sum, and paths by lane {numbers[3] / numbers[4]:.2f} times as long as paths by warp"
        )
    return as_sentence(text)


# ---- precision ----

TERMS, TERM = 10_000, 0.1
FUSED = 4096  # multiply-adds per chain


@with_recorded_values
def precision(device: str | None = None) -> Experiment:
    """FP16, FP32 and FP64: the error of a long sum, and the rates of multiply-adds.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures the rates as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    limits, where = recorded_ceilings()
    rows = [_precision_row(on, limits, *case) for case in progress(PRECISIONS, "precision")]
    return Experiment(
        "precision",
        "Precision",
        f"What do FP16, FP32 and FP64 cost, and what becomes of {TERM} added {TERMS:,} times?",
        tuple(rows),
        (
            Column("type", "type"),
            Column("bytes", "bytes", "given", "count"),
            Column("sum", "sum", "computed", "exact"),
            Column("error", "error", "computed", "error"),
            Column("tflops", "TFLOP/s", "measured", "number"),
            Column("recorded", "TFLOP/s", "recorded", "number"),
        ),
        conclude_precision,
        on.description,
        where,
        kernel_source("precision"),
        (
            f"{GUIDE}, Arithmetic Instructions: results per clock and multiprocessor, FP64 half of FP32 on 9.0",
            "IEEE 754: 11, 24 and 53 bits of significand",
        ),
        (
            "error: relative to 1,000. TFLOP/s: of multiply-adds that are fused; tensor cores multiply matrices "
            "and add in FP32.",
            "FP16 does two multiply-adds per instruction. The guide promises twice the rate of FP32 on 9.0; nvcc "
            "13.0 makes HFMA2 of it, which one of the two FMA pipes runs, so that nothing is gained: on an H200 "
            "Nsight Compute finds that pipe busy for 99.8 % of the time, and half of the issue slots empty.",
        ),
        charts.precision,
    )


# type, bytes, kernel suffix, operations per multiply-add, the ceiling that is recorded
PRECISIONS = [
    ("FP16", 2, "half", 4, None),
    ("FP32", 4, "float", 2, None),
    ("FP64", 8, "double", 2, None),
    ("TF32, tensor cores", 4, None, 0, "tf32"),
    ("BF16, tensor cores", 2, None, 0, "bf16"),
    ("FP16, tensor cores", 2, None, 0, "f16"),
]


def _precision_row(
    on: Device, limits: Any, kind: str, size: int, name: str | None, flops: int, bound: str | None
) -> Row:
    limit = limits and bound and getattr(limits, bound)
    row = {
        "type": kind,
        "bytes": size,
        "sum": None,
        "error": None,
        "tflops": None,
        "recorded": limit and limit / 1e12,
    }
    if name is None:
        return row
    out = asarray(np.zeros(1), device="cpu")
    kernel("precision", f"sum_{name}")[1, 1](TERM, TERMS, out)
    total, exact = float(out.numpy()[0]), TERM * TERMS
    row |= {"sum": total, "error": abs(total - exact) / exact}
    if on.is_cuda:
        blocks, count = on.multiprocessors * 8, FUSED
        args = [np.float32(0.5), count, np.zeros(blocks * 256, np.float32)]
        seconds = seconds_of(kernel("precision", f"rate_{name}"), (blocks, 256), on, args)
        row["tflops"] = blocks * 256 * count * 4 * flops / seconds / 1e12
    return row


def conclude_precision(rows: Sequence[Row]) -> str:
    """The verdict of `precision`."""
    at = {row["type"]: row for row in rows}
    half, single, double = at["FP16"], at["FP32"], at["FP64"]
    text = (
        f"{TERM} added {TERMS:,} times gives {half['sum']:g} in FP16, {single['sum']:.6g} in FP32 and "
        f"{double['sum']:.10g} in "
        f"FP64: FP16 is off by {100 * half['error']:.2g} %, FP32 by {100 * single['error']:.2g} %"
    )
    (halves, singles, doubles), how = known_numbers((half, single, double), "tflops")
    if halves and singles and doubles:
        text += (
            f"; {how}, FP64 reaches {doubles / singles:.2f} and FP16 {halves / singles:.2f} of the rate of FP32"
        )
    tensor, plain = at["FP16, tensor cores"]["recorded"], single["recorded"]
    if tensor and plain:
        text += (
            f"; recorded, FP32 units reach {format_number(plain)} TFLOP/s and tensor cores on FP16 "
            f"{tensor / plain:.1f} times that"
        )
    return as_sentence(text)


# ---- asynchronous copies ----

VECTORS, TILES = 256, 16  # per tile, per block


@with_recorded_values
def async_copy(device: str | None = None) -> Experiment:
    """Copies to shared memory: through registers, and asynchronously with two and four stages.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures the copies as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on, records = Device(device), recorded_problem("matmul", MATMUL)
    return Experiment(
        "async_copy",
        "Asynchronous copies",
        "What changes if tiles are copied to shared memory asynchronously instead of through registers?",
        tuple(_async_rows(on)),
        (
            Column("how", "how tiles come"),
            Column("stages", "ahead", "given", "count"),
            Column("shared_bytes", "bytes", "given", "count"),
            Column("sectors", "sectors", "counted", "number"),
            Column("stores", "stores", "counted", "number"),
            Column("barriers", "barriers", "counted", "number"),
            Column("seconds", "time", "measured", "seconds"),
            Column("recorded", "time", "recorded", "seconds"),
        ),
        conclude_async_copy,
        on.description,
        records and records.where,
        kernel_source("async_copy"),
        (f"{GUIDE}, Asynchronous Data Copies: from compute capability 8.0 on without registers",),
        (
            "ahead: tiles on their way while one is read. sectors, stores, barriers: per tile; stores to shared "
            "memory through registers. The last rows are smemkit's matmul at n = 4096, before and with "
            "asynchronous "
            "copies.",
        ),
        charts.async_copy,
    )


MATMUL = (4096, 4096, 4096)


def _async_rows(on: Device) -> Iterator[Row]:
    for how, name, stages in (
        ("through registers", "through_registers", 1),
        ("cp.async, 2 stages", "asynchronous_2", 2),
        ("cp.async, 4 stages", "asynchronous_4", 4),
    ):
        yield _async_row(on, how, name, stages)
    for name, how in (("warp_tile", "matmul, registers"), ("pipelined", "matmul, cp.async")):
        empty = dict.fromkeys(("stages", "shared_bytes", "sectors", "stores", "barriers", "faults", "seconds"))
        yield {"how": how} | empty | {"recorded": recorded_seconds("matmul", MATMUL, name)}


def _async_row(on: Device, how: str, name: str, stages: int) -> Row:
    which, blocks = kernel("async_copy", name), 2
    report = check(which[blocks, VECTORS], *_async_arguments(blocks, TILES), TILES)
    tiles = blocks * TILES
    loads = counted(report, lambda line: (line.space, line.access) == ("global", "load"))
    stores = counted(  # from registers
        report, lambda line: (line.space, line.access) == ("shared", "store") and "async" not in line.text
    )
    many = on.multiprocessors * 8
    args = [*_async_arguments(many, 64), 64] if on.is_cuda else []
    return {
        "how": how,
        "stages": stages - 1,
        "shared_bytes": stages * VECTORS * 16,
        "sectors": loads.sectors / tiles,
        "stores": stores.requests / tiles,
        "barriers": loads.barriers / tiles,
        "faults": len(report.faults),
        "seconds": seconds_of(which, (many, VECTORS), on, args),
        "recorded": None,
    }


def _async_arguments(blocks: int, tiles: int) -> list[Any]:
    return [np.ones(blocks * tiles * VECTORS * 4, np.float32), np.zeros(blocks * VECTORS, np.float32)]


def conclude_async_copy(rows: Sequence[Row]) -> str:
    """The verdict of `async_copy`."""
    through, two, four, before, after = rows
    faulty = [row["how"] for row in rows if row["faults"]]
    if faulty:
        return f"{', '.join(faulty)}: the checker finds faults."
    moved = "the same sectors" if through["sectors"] == two["sectors"] == four["sectors"] else "other sectors"
    text = (
        f"asynchronous copies move {moved} but make {two['stores']:g} instead of {through['stores']:g} stores "
        "from "
        f"registers and {two['barriers']:g} instead of {through['barriers']:g} barriers per tile, for "
        f"{two['shared_bytes'] / through['shared_bytes']:g} to "
        f"{four['shared_bytes'] / through['shared_bytes']:g} times the "
        "shared memory"
    )
    (slow, fast), how = known_numbers((through, four), "seconds")
    if slow and fast:
        text += f"; {how}, 4 stages take {fast / slow:.2f} of the time"
    if before["recorded"] and after["recorded"]:
        text += (
            f"; recorded, they take the matmul from {format_seconds(before['recorded'])} to "
            f"{format_seconds(after['recorded'])}, {before['recorded'] / after['recorded']:.2f} times as fast"
        )
    return as_sentence(text)
