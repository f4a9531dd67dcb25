"""Experiments on memory outside the multiprocessor: the hierarchy, coalescing, and transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from smemkit.arrays import asarray, asnumpy
from smemkit.checker.check import check
from smemkit.checker.launches import as_sentence
from smemkit.devices import Device
from smemkit.lab import charts
from smemkit.lab.experiment import Column, Experiment, Row, known_numbers
from smemkit.lab.recording import with_recorded_values
from smemkit.lab.running import (
    counted,
    cycles,
    kernel,
    kernel_source,
    marked,
    operation_seconds,
    progress,
    recorded_ceilings,
    reference_rows,
    seconds_of,
)
from smemkit.measure.benchmarks import measure_host
from smemkit.measure.ceilings import ceilings
from smemkit.measure.formats import format_seconds

__all__ = ["coalescing", "hierarchy", "transfers"]

BEST_PRACTICES = "NVIDIA, CUDA C++ Best Practices Guide"
ROUNDS = 1024  # hops of a pointer chase
READS, L2_FLOATS = 512, 4 << 20  # per thread, for bandwidths; what stays in L2
LINE = 32  # ints of 128 bytes: a hop goes to another line


# ---- the hierarchy ----


@with_recorded_values
def hierarchy(device: str | None = None) -> Experiment:
    """The memory hierarchy: what a dependent read costs in registers, shared memory, caches, memory and the host.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures latencies by pointer chases and bandwidths by streams. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    limits, where = recorded_ceilings()
    rows = [_level_row(on, limits, *level) for level in progress(LEVELS, "hierarchy")]
    return Experiment(
        "hierarchy",
        "The memory hierarchy",
        "How long does a read take that the next one waits for, and how much can be read per second?",
        tuple(rows),
        (
            Column("level", "level"),
            Column("usual", "cycles", "claimed"),
            Column("wavefronts", "wavefronts", "counted", "number"),
            Column("sectors", "sectors", "counted", "number"),
            Column("cycles", "cycles", "measured", "number"),
            Column("recorded_cycles", "cycles", "recorded", "number"),
            Column("gbps", "GB/s", "measured", "number"),
            Column("recorded_gbps", "GB/s", "recorded", "number"),
        ),
        conclude_hierarchy,
        on.description,
        where,
        kernel_source("hierarchy"),
        (
            "the usual table: 1 cycle for registers, 30 for shared memory and L1, 200 for L2, 400 to 800 for "
            "memory",
            "pointer chases: Mei and Chu, Dissecting GPU Memory Hierarchy through Microbenchmarking, 2017",
        ),
        (
            "wavefronts, sectors: per read of one thread. Constant and local memory are not counted: the checker "
            "watches shared and global memory. A dependent multiply-add takes the latency of the pipeline, 4 "
            "cycles "
            "on recent GPUs, although one starts every cycle.",
        ),
        charts.hierarchy,
    )


# level, the usual table's cycles, kernel, ints of the ring, the ceiling that bounds it
LEVELS = [
    ("registers", "1", "chase_registers", 0, None),
    ("shared memory", "~30", "chase_shared", 0, None),
    ("L1", "~30", "chase_l1", 4096, None),
    ("constant memory", None, "chase_constant", 0, None),
    ("local (spills)", None, "chase_local", 0, None),
    ("L2", "~200", "chase_l2", 1 << 20, None),
    ("global memory", "400…800", "chase_l2", 1 << 28, "read_bandwidth"),
    ("host memory", None, None, 0, "h2d"),
]


def _level_row(
    on: Device, limits: Any, level: str, usual: str | None, name: str | None, ints: int, bound: Any
) -> Row:
    row: dict[str, Any] = {"level": level, "usual": usual, "wavefronts": None, "sectors": None, "cycles": None}
    rate = limits and bound and getattr(limits, bound)
    row |= {"recorded_cycles": None, "gbps": _bandwidth(on, level, bound), "recorded_gbps": rate and rate / 1e9}
    if name is None:
        return row
    which, few = kernel("hierarchy", name), 16
    report = check(which[1, 1], *_chase_arguments(name, min(ints, 4096), few), np.zeros(1, np.int32))
    found = counted(report, marked())
    if found.requests:
        key = "wavefronts" if found.wavefronts else "sectors"
        row[key] = getattr(found, key) / found.requests
    if on.is_cuda:
        if name == "chase_constant":
            with on:
                which.constants["constant_ring"] = _ring(1024, 1)
        arguments, launches = _chase_arguments(name, ints, ROUNDS), 1 if level == "global memory" else 2
        row["cycles"] = cycles(which, (1, 1), on, arguments, ROUNDS, out=1, launches=launches)
    return row


def _chase_arguments(name: str, ints: int, rounds: int) -> list[Any]:
    """The arguments of a chase, without the last one. Rings of L2 are warmed up; one in memory is larger than L2
    and is not."""
    if name == "chase_registers":
        return [3, rounds]
    if name in ("chase_shared", "chase_local"):
        return [33, rounds]
    if name == "chase_constant":
        return [rounds]
    ring = _ring(ints, LINE)
    if name == "chase_l1":
        return [ring, rounds]
    return [ring, ints // LINE if ints <= 1 << 20 else 0, rounds]


def _ring(ints: int, step: int) -> np.ndarray:
    """Each entry is the index of the next one, `step` ints or a random number of lines away."""
    ring = np.zeros(ints, np.int32)
    places = np.random.default_rng(0).permutation(ints // step).astype(np.int32) * step
    ring[places] = np.roll(places, -1)
    return ring


def _bandwidth(on: Device, level: str, bound: str | None) -> float | None:
    """GB/s on a GPU."""
    if not on.is_cuda:
        return None
    if bound:
        return (getattr(ceilings(on.name), bound) or 0) / 1e9 or None
    blocks, rounds = 8 * on.multiprocessors, READS
    sums = np.zeros(blocks * 256, np.float32)
    if level == "shared memory":
        seconds = seconds_of(kernel("hierarchy", "read_shared"), (blocks, 256), on, [sums, rounds])
        return blocks * 256 * 16 * rounds / seconds / 1e9
    if level == "L2":
        x, rounds = np.zeros(L2_FLOATS, np.float32), READS // 32
        args = [x, sums, x.size // 4, rounds]
        seconds = seconds_of(kernel("hierarchy", "read_global"), (blocks, 256), on, args)
        return x.nbytes * rounds / seconds / 1e9
    return None


def conclude_hierarchy(rows: Sequence[Row]) -> str:
    """The verdict of `hierarchy`."""
    at = {row["level"]: row for row in rows}
    shared, far, host = at["shared memory"], at["global memory"], at["host memory"]
    text = (
        f"a read of 4 bytes takes {_plural(shared['wavefronts'], 'wavefront')} in shared memory, and from memory "
        "it moves "
        f"{_plural(far['sectors'], 'sector')} of 32 bytes"
    )
    rate, link, how = far["gbps"], host["gbps"], "measured"
    if not (rate and link):
        rate, link, how = far["recorded_gbps"], host["recorded_gbps"], "recorded"
    if rate and link:
        text += (
            f"; {how}, memory delivers {rate / 1000:.2f} TB/s and the host {link:.0f} GB/s, {rate / link:.0f} "
            "times less"
        )
    key, how = ("cycles", "measured") if any(row["cycles"] for row in rows) else ("recorded_cycles", "recorded")
    timed = [(row["level"], row[key]) for row in rows if row[key] is not None]
    if timed:
        text += f"; {how} latencies in cycles: " + ", ".join(f"{level} {cycles:.0f}" for level, cycles in timed)
        faster = [after[0] for before, after in pairwise(timed) if after[1] < before[1]]
        text += f"; faster than the level above: {', '.join(faster)}" if faster else ""
    else:
        text += "; no latency is recorded yet, so the usual table's cycles stand untested here"
    return as_sentence(text)


def _plural(number: float, noun: str) -> str:
    return f"{number:g} {noun}{'s' * (number != 1)}"


# ---- coalescing ----

COUNTED, TIMED = 1 << 12, 1 << 24  # elements


@with_recorded_values
def coalescing(device: str | None = None) -> Experiment:
    """Coalescing: sectors per request for strides, misaligned starts, and arrays of structures.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures each kernel on 16 M elements as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    return Experiment(
        "coalescing",
        "Coalescing",
        "How many sectors of global memory does one load of a warp move?",
        tuple(_coalescing_row(on, *case) for case in progress(list(_coalescing_cases()), "coalescing")),
        (
            Column("access", "thread i loads"),
            Column("predicted", "sectors", "predicted", "number"),
            Column("sectors", "sectors", "counted", "number"),
            Column("ideal", "ideal", "counted", "number"),
            Column("used", "used", "counted", "percent"),
            Column("seconds", "time", "measured", "seconds"),
        ),
        conclude_coalescing,
        on.description,
        source=kernel_source("coalescing"),
        references=(
            f"{BEST_PRACTICES}, Coalesced Access to Global Memory: sectors of 32 bytes",
            "Harris, How to Access Global Memory Efficiently in CUDA C/C++ Kernels, NVIDIA blog 2013",
        ),
        notes=(
            "used: of the bytes moved. sectors, ideal: per request of a warp. L1 may keep the rest of a sector "
            "for the next warp.",
        ),
        draw=charts.coalescing,
    )


def _coalescing_cases() -> Iterator[tuple[str, str, int, list[int], int]]:
    """Name, kernel, bytes per lane, [stride, offset] of the kernel `strided`, and bytes from lane to lane."""
    for stride in (1, 2, 4, 8, 16, 32):
        yield f"x[{stride} * i]" if stride > 1 else "x[i]", "strided", 4, [stride, 0], 4 * stride
    for offset in (1, 4, 8):
        yield f"x[i + {offset}]", "strided", 4, [1, offset], 4
    yield "x[i], a structure of arrays", "one_array", 4, [], 4
    yield "p[i].x, an array of structures", "one_field_of_structures", 4, [], 16
    yield "all of p[i], as float4", "whole_structures", 16, [], 16


def _coalescing_row(on: Device, access: str, name: str, size: int, options: list[int], step: int) -> Row:
    which = kernel("coalescing", name)
    report = check(which[COUNTED // 256, 256], *_coalescing_arguments(name, COUNTED, options))
    found = counted(report, marked(access="load"))
    start = 4 * options[1] if options else 0
    predicted = {(start + lane * step + byte) // 32 for lane in range(32) for byte in range(0, size, 4)}
    args = _coalescing_arguments(name, TIMED, options) if on.is_cuda else []
    return {
        "access": access,
        "predicted": len(predicted),
        "sectors": found.sectors / found.requests,
        "ideal": found.ideal_sectors / found.requests,
        "used": found.bytes / found.sector_bytes,
        "seconds": seconds_of(which, (TIMED // 256, 256), on, args),
        "addresses": [start + lane * step for lane in range(32)],
        "size": size,
    }


def _coalescing_arguments(name: str, n: int, options: list[int]) -> list[Any]:
    y = np.zeros(n, np.float32)
    if name == "strided":
        return [np.zeros(n, np.float32), y, n, *options]
    return [np.zeros(n * (1 if name == "one_array" else 4), np.float32), y]


def conclude_coalescing(rows: Sequence[Row]) -> str:
    """The verdict of `coalescing`."""
    base, worst = (
        min(rows, key=lambda row: row["sectors"]),
        max(rows, key=lambda row: row["sectors"] / row["ideal"]),
    )
    text = (
        f"a load of {base['access']} moves {_plural(base['sectors'], 'sector')} per request, one of "
        f"{worst['access']} "
        f"{worst['sectors']:g}, of whose bytes {100 * worst['used']:.3g} % are used"
    )
    off = [row for row in rows if abs(row["predicted"] - row["sectors"]) > 0.5]
    text += f"; the rule fails for {off[0]['access']}" if off else "; the rule predicts every row"
    late = [row for row in rows if row["access"].startswith("x[i + ") and row["sectors"] > row["ideal"]]
    if late:
        more = max(row["sectors"] - row["ideal"] for row in late)
        text += f"; a misaligned start costs at most {_plural(more, 'sector')} more"
    fields = {row["access"].split(",")[-1].strip(): row for row in rows if "structure" in row["access"]}
    split, together = fields["a structure of arrays"], fields["an array of structures"]
    text += (
        f"; one field of a structure of 16 bytes moves {together['sectors'] / split['sectors']:.3g} times the "
        "sectors of "
        "an array of its own"
    )
    times, how = known_numbers(rows, "seconds")
    timed = {row["access"]: time for row, time in zip(rows, times, strict=True) if time}
    slowest = max(timed, key=timed.__getitem__, default=None)
    if slowest and base["access"] in timed:
        longer = {
            name: timed[name] / timed[base["access"]] for name in (worst["access"], slowest) if name in timed
        }
        text += f"; {how}, " + ", and ".join(f"{name} takes {ratio:.1f}" for name, ratio in longer.items())
        text += f" times as long as {base['access']}"
    return as_sentence(text)


# ---- transfers ----

MIB = 1 << 20
TRANSFERRED = 64 * MIB  # bytes, as in the reference file
SUMMED = 128 * MIB  # elements


@with_recorded_values
def transfers(device: str | None = None) -> Experiment:
    """Transfers between host and device: pageable, pinned, staged and overlapped, and their share of a call.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures smemkit's own copies and a sum of a NumPy array. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    return Experiment(
        "transfers",
        "Transfers between host and device",
        "How fast does data reach the GPU and come back, and what share of a call is that?",
        tuple(_transfer_rows(on)),
        (
            Column("how", "what is done"),
            Column("bytes", "bytes", "given", "count"),
            Column("seconds", "time", "measured", "seconds"),
            Column("recorded", "time", "recorded", "seconds"),
            Column("gbps", "GB/s", "measured", "number"),
            Column("recorded_gbps", "GB/s", "recorded", "number"),
        ),
        conclude_transfers,
        on.description,
        recorded_ceilings()[1],
        "",
        (
            "Harris, How to Optimize Data Transfers in CUDA C/C++, NVIDIA blog 2012: pageable and pinned",
            "PCI Express 3.0 to 5.0, 16 lanes: 16 to 64 GB/s each way",
        ),
        (
            "pageable: the driver's copy, through one thread, as PyTorch's. staged: smemkit's, several threads "
            "fill a "
            "ring of pinned buffers. overlapped: parts are uploaded while others are summed.",
        ),
        charts.transfers,
    )


def _transfer_rows(on: Device) -> Iterator[Row]:
    limits, _ = recorded_ceilings()
    here = ceilings(on.name) if on.is_cuda else None
    x = np.ones(TRANSFERRED // 4, np.float32) if on.is_cuda else None
    for direction, case, bound in (("upload", "to the device", "h2d"), ("download", "to the host", "d2h")):
        row = next(iter(reference_rows(suite="transfer", op=direction, shape=[TRANSFERRED // 4])), None)
        peer = row and row["peers"].get("torch")
        yield _transfer(f"{case}, pageable", None, peer and peer / 1e6)
        yield _transfer(f"{case}, staged", _copy_seconds(on, direction, x), row and row["us"] / 1e6)
        pinned = TRANSFERRED / getattr(limits, bound) if limits and getattr(limits, bound) else None
        yield _transfer(f"{case}, pinned", here and TRANSFERRED / getattr(here, bound), pinned)
    n = SUMMED
    row = next(iter(reference_rows(suite="end_to_end", op="reduce", shape=[n])), None)
    yield _transfer("sum of a NumPy array, overlapped", _sum_seconds(on, n), row and row["us"] / 1e6, 4 * n)
    row = next(
        iter(reference_rows(suite="reduce", op="reduce", shape=[2 * n], dtype="float32", kernel=None)), None
    )
    recorded = row and row["us"] / 1e6 / 2  # half the time of 2 * n elements
    yield _transfer("the same sum on the device", operation_seconds("sum", [(n,)], on), recorded, 4 * n)


def _transfer(how: str, seconds: float | None, recorded: float | None, size: int = TRANSFERRED) -> Row:
    row = {"how": how, "bytes": size, "seconds": seconds, "recorded": recorded}
    return row | {"gbps": seconds and size / seconds / 1e9, "recorded_gbps": recorded and size / recorded / 1e9}


def _copy_seconds(on: Device, direction: str, x: np.ndarray | None) -> float | None:
    if not on.is_cuda:
        return None
    y = asarray(x, device=on.name)
    copy = (lambda: asarray(x, device=on.name)) if direction == "upload" else (lambda: asnumpy(y))
    return measure_host(copy, on.name, max_seconds=0.5).median


def _sum_seconds(on: Device, n: int) -> float | None:
    if not on.is_cuda:
        return None
    from smemkit.ops import sum as total

    x = np.ones(n, np.float32)
    return measure_host(lambda: total(x, device=on.name), on.name, max_seconds=0.5).median


def conclude_transfers(rows: Sequence[Row]) -> str:
    """The verdict of `transfers`."""
    key = "seconds" if all(row["seconds"] for row in rows if "pageable" not in row["how"]) else "recorded"
    at, known = {row["how"]: row[key] for row in rows}, {row["how"]: row["recorded"] for row in rows}
    how, words, of_driver = "measured" if key == "seconds" else "recorded", [], []
    for direction in ("to the device", "to the host"):
        driver, ours = (known.get(f"{direction}, {kind}") for kind in ("pageable", "staged"))
        if driver and ours:
            of_driver.append(
                f"staging copies pageable memory {direction} {driver / ours:.1f} times as fast as the driver"
            )
        staged, pinned = (at.get(f"{direction}, {kind}") for kind in ("staged", "pinned"))
        if staged and pinned:
            words.append(f"pinned memory takes {pinned / staged:.2f} of the staged time {direction}")
    whole, kernel_time = at.get("sum of a NumPy array, overlapped"), at.get("the same sum on the device")
    if whole and kernel_time:
        words.append(
            f"of {format_seconds(whole)} for the sum of 512 MiB the kernel needs {format_seconds(kernel_time)}, "
            "so "
            f"{100 * (1 - kernel_time / whole):.3g} % are transfers"
        )
    if how == "recorded":
        of_driver, words = [*of_driver, *words], []
    parts = [
        f"{what}: " + "; ".join(texts) for what, texts in (("recorded", of_driver), ("measured", words)) if texts
    ]
    return as_sentence("; ".join(parts)) if parts else "No transfer is measured or recorded yet."
