"""Experiments on shared memory: how it is declared, its banks, padding, and what it leaves to L1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smemkit import ops
from smemkit._core import Error
from smemkit.arrays import asarray
from smemkit.checker.banks import WARP_SIZE, wavefronts
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
    recorded_problem,
    recorded_seconds,
    seconds_of,
)
from smemkit.measure.formats import pluralize
from smemkit.measure.occupancy import occupancy
from smemkit.table.kernel_table import source

__all__ = ["banks", "carveout", "padding", "persistence", "reverse"]

GUIDE = "NVIDIA, CUDA C++ Programming Guide"
PRACTICES = "NVIDIA, CUDA C++ Best Practices Guide, Shared Memory and Memory Banks"
ROUNDS = 64  # reads that clock64 measures


# ---- banks ----


@with_recorded_values
def banks(device: str | None = None) -> Experiment:
    """Bank conflicts: what the bank rule predicts for 46 accesses, what the checker counts, what a GPU measures.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures the latency of each access as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    rows = [_bank_row(on, *access) for access in progress(list(bank_accesses()), "banks")]
    rows += [_old_row(*access) for access in old_accesses()]
    return Experiment(
        "banks",
        "Bank conflicts",
        "How many wavefronts does one access of a warp to shared memory take?",
        tuple(rows),
        (
            Column("access", "access of lane t"),
            Column("predicted", "wavefronts", "predicted", "count"),
            Column("wavefronts", "wavefronts", "counted", "count"),
            Column("conflicts", "conflicts", "counted", "count"),
            Column("cycles", "cycles", "measured", "number"),
        ),
        conclude_banks,
        on.description,
        source=kernel_source("banks"),
        references=(PRACTICES, f"{GUIDE}, appendix Compute Capabilities, Shared Memory"),
        notes=("Rows of GPUs of old are predicted only: today's GPUs have 32 banks of 4 bytes.",),
        draw=charts.banks,
    )


def bank_accesses() -> list[tuple[str, int, list[int]]]:
    """Name, bytes per lane, and the byte address of each lane."""
    lanes = range(WARP_SIZE)
    found = [(f"float, stride {stride}", 4, [4 * stride * t for t in lanes]) for stride in range(1, 34)]
    found += [
        ("float, column of [32][32]", 4, [4 * 32 * t for t in lanes]),
        ("float, column of [32][33]", 4, [4 * 33 * t for t in lanes]),
        ("float, one word for all lanes", 4, [0 for _ in lanes]),
        ("float, two words, 16 lanes each", 4, [4 * (t // 16) for t in lanes]),
        ("char, stride 1", 1, list(lanes)),
        ("char, stride 4", 1, [4 * t for t in lanes]),
        ("char, stride 128", 1, [128 * t for t in lanes]),
    ]
    found += [(f"double, stride {stride}", 8, [8 * stride * t for t in lanes]) for stride in (1, 2, 16)]
    found += [(f"float4, stride {stride}", 16, [16 * stride * t for t in lanes]) for stride in (1, 2, 8)]
    return found


def old_accesses() -> list[tuple[str, int, list[int], dict[str, int]]]:
    """Accesses on GPUs of other generations: name, bytes per lane, addresses, and the number of banks and their
    width."""
    column, apart = [4 * 32 * t for t in range(32)], [6, 133]
    return [
        ("half-warp, stride 16; 16 banks", 4, [64 * t for t in range(16)], {"banks": 16}),
        ("column of [32][32]; 8-byte banks", 4, column, {"bank_width": 8}),
        ("bytes 6 and 133; 4-byte banks", 1, apart, {}),
        ("bytes 6 and 133; 8-byte banks", 1, apart, {"bank_width": 8}),
    ]


def _bank_row(on: Device, access: str, size: int, addresses: list[int]) -> Row:
    rule = wavefronts(addresses, size)
    index = np.array(addresses, np.int32) // size
    which = kernel("banks", f"read_{size}")
    report = check(which[1, WARP_SIZE], index, 1, np.zeros(WARP_SIZE, np.int32))
    found = counted(report, marked(access="load"))
    return {
        "access": access,
        "size": size,
        "predicted": rule.wavefronts,
        "predicted_conflicts": rule.conflicts,
        "wavefronts": round(found.wavefronts),
        "conflicts": round(found.conflicts),
        "cycles": cycles(which, (1, WARP_SIZE), on, [index, ROUNDS], ROUNDS, out=WARP_SIZE),
        "addresses": addresses,
    }


def _old_row(access: str, size: int, addresses: list[int], rule: dict[str, int]) -> Row:
    found = wavefronts(addresses, size, **rule)
    row = {"access": access, "size": size, "predicted": found.wavefronts, "predicted_conflicts": found.conflicts}
    return row | {"wavefronts": None, "conflicts": None, "cycles": None, "addresses": addresses}


def conclude_banks(rows: Sequence[Row]) -> str:
    """The verdict of `banks`."""
    known = [row for row in rows if row["wavefronts"] is not None]
    off = [
        row["access"]
        for row in known
        if (row["predicted"], row["predicted_conflicts"]) != (row["wavefronts"], row["conflicts"])
    ]
    free = sum(not row["conflicts"] for row in known)
    worst = max(known, key=lambda row: row["conflicts"])
    agree = (
        f"in all {len(known)} accesses"
        if not off
        else f"in all but {len(off)} of {len(known)} accesses ({off[0]} …)"
    )
    text = (
        f"The bank rule predicts what is counted {agree}: {free} are free of conflicts, and the worst, "
        f"{worst['access']}, takes {worst['wavefronts']} wavefronts"
    )
    odd = [
        row for row in known if row["access"].startswith("float, stride") and int(row["access"].split()[-1]) % 2
    ]
    if odd and not any(row["conflicts"] for row in odd):
        text += "; odd strides never conflict"
    strides = [row for row in known if row["access"].startswith("float, stride")]
    numbers, how = known_numbers(strides, "cycles")
    timed = [(number, row["access"]) for row, number in zip(strides, numbers, strict=True) if number]
    if timed:
        fast, slow = timed[0], max(timed)
        text += f"; {how}, {slow[1]} takes {slow[0] / fast[0]:.1f} times as long as {fast[1]}"
    return text + "."


# ---- padding ----

TRANSPOSED = (8192, 8192)  # recorded, and measured on a GPU
CHECKED = 256  # the side of the matrix that the checker transposes


@with_recorded_values
def padding(device: str | None = None) -> Experiment:
    """Padding: a transpose through tiles of 8, 16 and 32 columns with 0 to 4 columns of padding.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures a transpose of 8192 × 8192 as well. The default device if None.

    Returns
    -------
    Experiment
    """
    on, records = Device(device), recorded_problem("transpose", TRANSPOSED)
    x = np.zeros((CHECKED, CHECKED), np.float32)
    cases = [(tile, pad) for tile in (8, 16, 32) for pad in range(5)]
    return Experiment(
        "padding",
        "Padding",
        "What does one more column in a tile of shared memory save a transpose?",
        tuple(_padding_row(on, x, *case) for case in progress(cases, "padding")),
        (
            Column("tile", "tile", "given", "count"),
            Column("pad", "pad", "given", "count"),
            Column("load", "per load", "counted", "number"),
            Column("store", "per store", "counted", "number"),
            Column("shared_bytes", "bytes", "given", "count"),
            Column("seconds", "time", "measured", "seconds"),
            Column("recorded", "time", "recorded", "seconds"),
        ),
        conclude_padding,
        on.description,
        records and records.where,
        source("transpose", "padded"),
        ("Harris, An Efficient Matrix Transpose in CUDA C/C++, NVIDIA blog 2013: the padded tile",),
        ("per load, per store: wavefronts per request of a warp to shared memory; 1 is the least.",),
        charts.padding,
    )


def _padding_row(on: Device, x: np.ndarray, tile: int, pad: int) -> Row:
    report = check(ops.transpose, x, tile=tile, pad=pad)
    per = {}
    for access in ("load", "store"):
        found = counted(report, lambda line: line.space == "shared" and line.access == access)  # noqa: B023
        per[access] = found.wavefronts / found.requests
    shared = tile * (tile + pad) * x.itemsize
    seconds = operation_seconds("transpose", [TRANSPOSED], on, tile=tile, pad=pad)
    recorded = recorded_seconds("transpose", TRANSPOSED, "padded", tile=tile, pad=pad)
    if recorded is None and not pad:  # the same kernel
        recorded = recorded_seconds("transpose", TRANSPOSED, "unpadded", tile=tile)
    return {"tile": tile, "pad": pad, **per, "shared_bytes": shared, "seconds": seconds, "recorded": recorded}


def conclude_padding(rows: Sequence[Row]) -> str:
    """The verdict of `padding`."""
    at = {(row["tile"], row["pad"]): row for row in rows}
    words = []
    for tile in (32, 16, 8):
        before, after = at[tile, 0]["load"], at[tile, 1]["load"]
        gain = _gain(at[tile, 0], at[tile, 1])
        change = (
            f"takes a load from {before:g} to {after:g} wavefronts"
            if before != after
            else f"leaves a load at {before:g}"
        )
        words.append(f"with tiles of {tile} one more column {change}{gain}")
    why = ""
    if at[32, 0]["load"] > at[16, 0]["load"]:
        share = at[16, 0]["load"] / at[32, 0]["load"]
        why = (
            f"; a column of 16 loses less, {share:.2g} of the wavefronts, because 16 words span only half of the "
            "banks"
        )
    even = [row["pad"] for row in rows if row["tile"] == 32 and row["pad"] and row["load"] > 1]
    more = f"; with tiles of 32, pads of {' and '.join(map(str, even))} leave conflicts" if even else ""
    return as_sentence("; ".join(words) + why + more)


def _gain(before: Row, after: Row) -> str:
    """How much faster, as measured, or else as recorded: ", 2.0 times as fast (recorded)"."""
    (slow, fast), how = known_numbers((before, after), "seconds")
    return f", {slow / fast:.2f} times as fast ({how})" if slow and fast else ""


# ---- static, dynamic, carved ----

KIB = 1024


@with_recorded_values
def reverse(device: str | None = None) -> Experiment:
    """Shared memory that is static, dynamic, or carved into three arrays; and dynamic arrays above 48 KB.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    rows = [_reverse_row(on, name) for name in ("static", "dynamic", "carved")]
    rows += [_large_row(on, kib) for kib in progress((48, 64, 96, 227, 256), "reverse")]
    return Experiment(
        "reverse",
        "Static, dynamic and carved shared memory",
        "Does it matter how shared memory is declared, and how much may a block have?",
        tuple(rows),
        (
            Column("how", "reverses through"),
            Column("bytes", "dynamic", "given", "count"),
            Column("right", "right", "computed"),
            Column("wavefronts", "wavefronts", "counted", "count"),
            Column("conflicts", "conflicts", "counted", "count"),
            Column("resident", "blocks/SM", "predicted", "count"),
            Column("seconds", "time", "measured", "seconds"),
        ),
        conclude_reverse,
        on.description,
        source="\n".join(
            [source("reverse", name) for name in ("static", "dynamic", "carved")] + [kernel_source("shared")]
        ),
        references=(
            "Harris, Using Shared Memory in CUDA C/C++, NVIDIA blog 2013: reverse 64 integers",
            f"{GUIDE}, Technical Specifications per Compute Capability: 48 KB static, 227 KB with the opt-in on "
            "9.0",
        ),
        notes=(
            f"dynamic: bytes. blocks/SM: on compute capability {CAPABILITY}. For n = 64, smemkit's own kernels "
            "have blocks of 64, 256 and 128 threads, and shared memory for a whole block.",
        ),
        draw=charts.reverse,
    )


CAPABILITY = "9.0"  # of the reference GPU


def _reverse_row(on: Device, name: str) -> Row:
    """The project's own kernel on 64 integers, which are 256 bytes; carved has an array of floats and of chars."""
    x = np.arange(64, dtype=np.int32)
    report = check(ops.reverse, x, kernel=name)
    right = np.array_equal(ops.reverse(x, kernel=name, device=on.name), x[::-1])
    used = report.launches[0].shared_bytes
    seconds = operation_seconds("reverse", [(64,)], on, dtype="int32", kernel=name)
    block = report.launches[0].block[0]
    return _shared_row(f"{name}, n = 64", used, right, report, block) | {"seconds": seconds}


def _large_row(on: Device, kib: int) -> Row:
    """A dynamic array of that many KiB; a block that a multiprocessor cannot hold is not launched."""
    n = kib * KIB // 4
    which, x = kernel("shared", "reverse_dynamic"), np.arange(n, dtype=np.int32)
    try:
        report = check(which[1, 256, 4 * n], x, n)
    except Error:  # more than a block may have
        return _shared_row(f"dynamic, {kib} KB", 4 * n, None, None, 256) | {"right": "refused", "seconds": None}
    result = asarray(x, device=on.name)
    which[1, 256, 4 * n](result, n)
    row = _shared_row(f"dynamic, {kib} KB", 4 * n, np.array_equal(result.numpy(), x[::-1]), report, 256)
    return row | {"seconds": seconds_of(which, (1, 256, 4 * n), on, [x, n])}


def _shared_row(how: str, size: int, right: bool | None, report: Any, block: int) -> Row:
    found = report and counted(report, lambda line: line.space == "shared")
    resident = occupancy(block_size=block, shared_bytes=size, registers=32, capability=CAPABILITY).blocks
    return {
        "how": how,
        "bytes": size,
        "right": _yes(right),
        "faults": report and len(report.faults),
        "wavefronts": found and round(found.wavefronts),
        "conflicts": found and round(found.conflicts),
        "resident": resident,
    }


def _yes(right: bool | None) -> str | None:
    return None if right is None else "yes" if right else "no"


def conclude_reverse(rows: Sequence[Row]) -> str:
    """The verdict of `reverse`."""
    small = [row for row in rows if "n = 64" in row["how"]]
    wrong = [row["how"] for row in rows if row["right"] == "no" or row["faults"]]
    if wrong:
        return f"{', '.join(wrong)}: wrong or faulty."
    costs = {
        (row["wavefronts"] - row["conflicts"], row["conflicts"]) for row in small if "carved" not in row["how"]
    }
    same = "cost the same" if len(costs) == 1 else "do not cost the same"
    fits = [row for row in rows if row["resident"] and row not in small]
    fewest, many = (choose(fits, key=lambda row: row["resident"]) for choose in (min, max))
    most, beyond = max(row["bytes"] for row in fits), [row["bytes"] for row in rows if not row["resident"]]
    text = (
        f"Static and dynamic arrays {same}, and all {len(small)} ways are right; a dynamic array may have up to "
        f"{most // KIB} KB per block, but then a multiprocessor holds {pluralize(fewest['resident'], 'block')} "
        f"instead of the {many['resident']} that it holds with {many['bytes'] // KIB} KB"
    )
    return text + (f"; {min(beyond) // KIB} KB are refused." if beyond else ".")


# ---- what persists ----


@with_recorded_values
def persistence(device: str | None = None) -> Experiment:
    """What persists from one launch to the next: global memory and variables do, shared memory does not.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None. Shared memory is read on the CPU device only, by the checker:
        what a GPU finds there is undefined.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    return Experiment(
        "persistence",
        "From one launch to the next",
        "Which memory keeps what one launch has written for the next one?",
        tuple(_persistence_row(on, *case) for case in progress(PERSISTENCE, "persistence")),
        (
            Column("memory", "memory"),
            Column("kept", "kept", "computed"),
            Column("fault", "found", "counted"),
            Column("faults", "faults", "counted", "count"),
        ),
        conclude_persistence,
        on.description,
        source=kernel_source("persistence"),
        references=(
            f"{GUIDE}, Device Memory Accesses and Variable Memory Space Specifiers: the lifetime of variables",
        ),
        notes=("found: by the checker, in the launch that reads.",),
        draw=charts.marks,
    )


PERSISTENCE = [
    ("global memory", "global"),
    ("a __device__ variable", "variable"),
    ("shared memory", "shared"),
]


def _persistence_row(on: Device, memory: str, name: str) -> Row:
    write, read = (kernel("persistence", f"{verb}_{name}") for verb in ("write", "read"))
    x, y = (asarray(np.zeros(64, np.int32), device=on.name) for _ in range(2))
    write[1, 64](x)
    faults = check(read[1, 64], np.zeros(64, np.int32), np.zeros(64, np.int32)).faults
    if not faults:
        read[1, 64](x, y)
    kept = None if faults else np.array_equal(y.numpy(), np.arange(1, 65))
    found = faults[0].title if faults else "nothing"
    return {"memory": memory, "kept": _yes(kept), "fault": found, "faults": len(faults)}


def conclude_persistence(rows: Sequence[Row]) -> str:
    """The verdict of `persistence`."""
    kept = [row["memory"] for row in rows if row["kept"] == "yes"]
    lost = [row["memory"] for row in rows if row["kept"] == "no"]
    faulty = [f"{row['memory']} ({row['fault']})" for row in rows if row["faults"]]
    words = [f"{' and '.join(kept)} persist"] if kept else ["nothing persists"]
    words += [f"{' and '.join(lost)} lose what was written"] if lost else []
    words += [f"the next launch must not read {', '.join(faulty)}"] if faulty else []
    return as_sentence("; ".join(words))


# ---- the carve-out ----


@with_recorded_values
def carveout(device: str | None = None) -> Experiment:
    """The carve-out: how a multiprocessor's memory is divided between shared memory and L1, and what that costs.

    Parameters
    ----------
    device : str, optional
        "cuda:0" measures a kernel whose blocks each read a table of 16 KB of their own 64 times, from L1 if it
        fits. The default device if None.

    Returns
    -------
    Experiment
    """
    on = Device(device)
    cases = [(kib, percent) for kib in (8, 32) for percent in (0, 25, 50, 75, 100)]
    return Experiment(
        "carveout",
        "The carve-out of L1",
        "How many blocks fit if more of a multiprocessor's memory is shared memory, and how much L1 is left?",
        tuple(_carveout_row(on, *case) for case in cases),
        (
            Column("kib", "KB per block", "given", "count"),
            Column("percent", "carve-out", "given", "count"),
            Column("shared_kib", "shared, KB", "predicted", "count"),
            Column("l1_kib", "L1, KB", "predicted", "count"),
            Column("blocks", "blocks", "predicted", "count"),
            Column("warps", "warps", "predicted", "count"),
            Column("seconds", "time", "measured", "seconds"),
        ),
        conclude_carveout,
        on.description,
        source=kernel_source("shared"),
        references=(f"{GUIDE}, Compute Capability 9.0, Shared Memory: 256 KB for both, splits of 0 to 228 KB",),
        notes=(
            f"carve-out: in percent. A block has 256 threads. A multiprocessor of compute capability {CAPABILITY} "
            "holds at most 64 warps, and has 256 KB for shared memory and L1 together.",
        ),
        draw=charts.carveout,
    )


REUSES, BLOCKS_PER_MULTIPROCESSOR = 64, 8
TOTAL_KIB = 256  # L1 and shared memory of a multiprocessor of compute capability 9.0


def _carveout_row(on: Device, kib: int, percent: int) -> Row:
    which = kernel("shared", "reuse")
    which.carveout = percent
    fits = occupancy(which, block_size=256, shared_bytes=kib * KIB, registers=32, capability=CAPABILITY)
    shared = next(part.available for part in fits.resources if part.name == "shared memory") // KIB
    n, blocks = 16 * KIB // 4, BLOCKS_PER_MULTIPROCESSOR * on.multiprocessors
    args = [np.zeros(blocks * n, np.float32), np.zeros(blocks * 256, np.float32), n, REUSES] if on.is_cuda else []
    seconds = seconds_of(which, (blocks, 256, kib * KIB), on, args)
    which.carveout = None
    row = {"kib": kib, "percent": percent, "shared_kib": shared, "l1_kib": TOTAL_KIB - shared}
    return row | {"blocks": fits.blocks, "warps": fits.warps, "seconds": seconds}


def conclude_carveout(rows: Sequence[Row]) -> str:
    """The verdict of `carveout`."""
    words = []
    for kib in sorted({row["kib"] for row in rows}):
        of = [row for row in rows if row["kib"] == kib]
        best = max(of, key=lambda row: (row["blocks"], row["l1_kib"]))
        least = min(of, key=lambda row: row["blocks"])
        words.append(
            f"of blocks with {kib} KB of shared memory a multiprocessor holds {least['blocks']} at a carve-out of "
            f"{least['percent']} % and {best['blocks']} from {best['percent']} % on, which leaves "
            f"{best['l1_kib']} KB of L1"
        )
    text = "; ".join(words)
    numbers, how = known_numbers(rows, "seconds")
    if all(numbers):
        within = 1.02 * min(numbers)
        fast = [
            f"{row['kib']} KB per block at {row['percent']} %"
            for row, seconds in zip(rows, numbers, strict=True)
            if seconds <= within
        ]
        text += f"; {how}, {' and '.join(fast)} {'is' if len(fast) == 1 else 'are'} fastest"
    return as_sentence(text)
