"""Advice on a report's lines and faults: pure functions on one LineReport or one Fault.

A line's advice comes from its example, the addresses of the lanes of one request. `find_pattern` fits them with
the pattern of nearly all kernels: rows of `period` lanes, adjacent lanes `stride` bytes apart, rows `pitch` bytes
apart. Addresses that do not fit are called scattered, and nothing is guessed about them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smemkit import _core

if TYPE_CHECKING:
    from smemkit.report import Fault, LineReport

__all__ = ["Pattern", "advise", "bank_map", "between_blocks", "explain", "find_pattern", "group_size"]

WARP_SIZE = 32
BANKS = 32
SECTOR_BYTES = 32
LaneAddresses = Sequence["int | None"]


# ---- access patterns ----


@dataclass(frozen=True)
class Pattern:
    """Lane t accesses ``start + stride * column + pitch * row``, (row, column) = divmod(t + phase, period).

    Attributes
    ----------
    stride : int
        Bytes from one lane to the next in its row.
    period : int
        Lanes per row; 32 if the whole warp is one row.
    pitch : int
        Bytes from one row to the next; 0 if there is one row.
    phase : int
        The column of lane 0; not 0 if the warp begins in the middle of a row of the block.
    """

    stride: int
    period: int = WARP_SIZE
    pitch: int = 0
    phase: int = 0

    def addresses(self, active: Sequence[int]) -> list[int | None]:
        """The address of each lane in `active`, relative to the lowest; None for other lanes."""
        offsets = {}
        for lane in active:
            row, column = divmod(lane + self.phase, self.period)
            offsets[lane] = self.stride * column + self.pitch * row
        least = min(offsets.values(), default=0)
        return [offsets[lane] - least if lane in offsets else None for lane in range(WARP_SIZE)]


def find_pattern(example: LaneAddresses) -> Pattern | None:
    """The pattern of a request, or None if there is none or fewer than three lanes are active.

    Examples
    --------
    >>> find_pattern([128 * lane for lane in range(32)])
    Pattern(stride=128, period=32, pitch=0, phase=0)
    >>> find_pattern([64 * (lane % 16) + 4 * (lane // 16) for lane in range(32)])
    Pattern(stride=64, period=16, pitch=4, phase=0)
    """
    lanes = [(lane, address) for lane, address in enumerate(example) if address is not None]
    if len(lanes) < 3:
        return None
    for period in (WARP_SIZE, 16, 8, 4, 2, *(p for p in range(31, 2, -1) if p & (p - 1))):
        for phase in (0,) if period & (period - 1) == 0 else range(period):
            pattern = _fit_pattern(lanes, period, phase)
            if pattern:
                return pattern
    return None


def _fit_pattern(lanes: list[tuple[int, int]], period: int, phase: int) -> Pattern | None:
    """The pattern with this period, or None. Of several rows, at least two must have two active lanes."""
    positions = [(*divmod(lane + phase, period), address) for lane, address in lanes]
    rows: dict[int, list[tuple[int, int]]] = {}
    for row, column, address in positions:
        rows.setdefault(row, []).append((column, address))
    long = [row for row in rows.values() if len(row) > 1]
    if not long or (len(rows) > 1 and len(long) < 2):
        return None
    (column, first), (next_column, second) = long[0][:2]
    stride, rest = divmod(second - first, next_column - column)
    if rest:
        return None
    starts = sorted((row, cells[0][1] - stride * cells[0][0]) for row, cells in rows.items())
    pitch = 0
    if len(starts) > 1:
        pitch, rest = divmod(starts[1][1] - starts[0][1], starts[1][0] - starts[0][0])
        if rest:
            return None
    base = starts[0][1] - pitch * starts[0][0]
    if any(base + stride * column + pitch * row != address for row, column, address in positions):
        return None
    if pitch == stride * period:
        return Pattern(stride)
    return Pattern(stride, period, pitch, phase)


def group_size(example: LaneAddresses, size: int, *, store: bool) -> int:
    """The number of consecutive lanes that shared memory serves together."""
    return _core.wavefronts(example, size, store, BANKS, 4)[5]


def bank_map(example: LaneAddresses, size: int = 4, *, store: bool = False) -> list[list[list[tuple[int, ...]]]]:
    """The wavefronts of each group of lanes. A wavefront lists the lanes that each of the 32 banks delivers to.

    A bank delivers its words in the order of the lanes that request them. The numbers of wavefronts and of
    non-empty groups are those that `smemkit.wavefronts` counts. A lane of 8 or 16 bytes appears in several banks.
    Lanes that share a word appear together.

    Examples
    --------
    >>> (column,) = bank_map([128 * lane for lane in range(32)])
    >>> len(column), column[0][0], column[31][0], column[0][1]
    (32, (0,), (31,), ())
    """
    groups = []
    lanes = group_size(example, size, store=store)
    for first in range(0, len(example), lanes):
        banks: list[dict[int, list[int]]] = [{} for _ in range(BANKS)]  # per bank: word → its lanes
        for lane in range(first, min(first + lanes, len(example))):
            address = example[lane]
            if address is not None:
                for word in range(address // 4, (address + size - 1) // 4 + 1):
                    banks[word % BANKS].setdefault(word, []).append(lane)
        delivered = [list(bank.values()) for bank in banks]
        groups.append(
            [
                [tuple(words[wavefront]) if wavefront < len(words) else () for words in delivered]
                for wavefront in range(max(map(len, delivered)))
            ]
        )
    return [group for group in groups if group]


# ---- lines ----


def advise(line: LineReport) -> str:
    """The problem in a line's use of memory and its fix; "" if there is none."""
    if not line.wasteful:
        advice = _advise_contention(line)
    else:
        advice = _advise_shared(line) if line.space == "shared" else _advise_global(line)
    return "; ".join(filter(None, (advice, _advise_divergence(line))))


def _advise_divergence(line: LineReport) -> str:
    """Warps that execute the line with few active lanes."""
    if not line.divergent:
        return ""
    return (
        f"divergent: {_format_average(line.lanes, line.requests)} of {WARP_SIZE} lanes active on average, "
        f"{_format_average(line.requests, line.ideal_requests)} times the requests that full warps would "
        "make; give the work to consecutive threads, so that whole warps have none"
    )


def _active_lanes(example: LaneAddresses) -> list[int]:
    return [lane for lane, address in enumerate(example) if address is not None]


def _advise_contention(line: LineReport) -> str:
    """Atomics on one address: their cost shows neither in wavefronts nor in sectors."""
    addresses = [address for address in line.example if address is not None]
    if line.access != "atomic" or len(addresses) < 3 or len(set(addresses)) > 1:
        return ""
    return (
        f"{len(addresses)} lanes update one address, and the hardware does it one after the other; reduce within "
        "the warp first (__shfl_down_sync, __reduce_add_sync) and let one lane do the atomic"
    )


def _advise_shared(line: LineReport) -> str:
    head = f"{line.degree}-way: "
    active, pattern = _active_lanes(line.example), find_pattern(line.example)
    if not active:
        return head + f"lanes of one request need {line.degree} different words of one bank"
    if pattern is None:
        return head + (_advise_two_lanes(line, active) if len(active) == 2 else _advise_scattered_shared(line))
    step, pitch = abs(pattern.stride), abs(pattern.pitch)
    if pattern.period < WARP_SIZE and pitch > step:
        return head + _advise_narrow_rows(line, pattern)
    pad = _best_pad(line, pattern, pitch=False)
    gap = _format_distance(step, line.size)
    row = [
        lane
        for lane in active
        if (lane + pattern.phase) // pattern.period == (active[0] + pattern.phase) // pattern.period
    ]
    banks = len(
        {(line.example[lane] // 4 + word) % BANKS for lane in row for word in range(_words_per_lane(line.size))}
    )
    if _has_two_subscripts(line):
        advice = f"rows are {gap} apart, so a column lies in {_format_banks(banks)}"
        return head + advice + (f"; pad the row to {step // line.size + pad}" if pad else "")
    advice = f"neighbouring lanes are {gap} apart, so {len(row)} lanes share {_format_banks(banks)}"
    if "." in _strip_comments_and_numbers(line.text) or "->" in line.text:
        return f"{head}{advice}; keep an array for each field instead of an array of structures"
    better = "; let neighbouring lanes take neighbouring elements"
    if step == line.size:  # rows of neighbours that overlap in their banks
        return head + advice
    return (
        head
        + advice
        + better
        + (f", or make it {_format_distance(step + pad * line.size, line.size)}" if pad else "")
    )


def _advise_two_lanes(line: LineReport, active: list[int]) -> str:
    """Two lanes have a distance but no pattern."""
    distance = _format_distance(abs(line.example[active[0]] - line.example[active[1]]), line.size)
    return f"lanes {active[0]} and {active[1]} need words of one bank, {distance} apart"


def _advise_narrow_rows(line: LineReport, pattern: Pattern) -> str:
    """Rows of a narrow block: each is contiguous or nearly so, and the rows share banks."""
    pieces = len({(lane + pattern.phase) // pattern.period for lane in _active_lanes(line.example)})
    pitch = abs(pattern.pitch)
    advice = (
        f"the warp covers {pieces} rows of {pattern.period} lanes, and rows are "
        f"{_format_distance(pitch, line.size)} apart, so that they use the same banks"
    )
    pad = _best_pad(line, pattern, pitch=True)
    return advice + (f"; pad the row to {pitch // line.size + pad}" if pad else "; a block 32 wide has one row")


def _advise_scattered_shared(line: LineReport) -> str:
    """No pattern: the busiest bank of the example, and a fix that does not depend on the data."""
    words: dict[int, dict[int, int]] = {}  # bank → word → the first lane that requests it
    for lane in _active_lanes(line.example):
        for word in range(line.example[lane] // 4, (line.example[lane] + line.size - 1) // 4 + 1):
            words.setdefault(word % BANKS, {}).setdefault(word, lane)
    bank = max(words, key=lambda bank: len(words[bank]))
    lanes = sorted(set(words[bank].values()))
    who = f"lanes {', '.join(map(str, lanes[:4]))}{', …' if len(lanes) > 4 else ''}"
    if len(lanes) < 2:
        return "no pattern found in the addresses of the example"
    if line.access == "atomic":
        return (
            f"the lanes hit scattered words ({who} meet in bank {bank}), as a histogram of data does; a copy of "
            "the bins for each warp or half-warp, an odd number of words apart, spreads them"
        )
    return (
        f"the lanes ask for scattered words ({who} meet in bank {bank}) and follow no pattern that padding would "
        "fix; if the index comes from data, sort it or keep copies of the table"
    )


def _best_pad(line: LineReport, pattern: Pattern, *, pitch: bool) -> int:
    """The padding in elements, from 1 to 32, that leaves the fewest conflicts; 0 if none helps."""
    active = _active_lanes(line.example)
    size, store = line.size, line.access != "load"

    def conflicts(pad: int) -> int:
        more = pad * size
        stride, rows = abs(pattern.stride), abs(pattern.pitch)
        moved = Pattern(
            stride + (0 if pitch else more), pattern.period, rows + (more if pitch else 0), pattern.phase
        )
        return _core.wavefronts(moved.addresses(active), size, store, BANKS, 4)[1]

    return min(range(WARP_SIZE + 1), key=lambda pad: (conflicts(pad), pad))


def _advise_global(line: LineReport) -> str:
    active, pattern = _active_lanes(line.example), find_pattern(line.example)
    sectors, ideal = (_format_average(n, line.requests) for n in (line.sectors, line.ideal_sectors))
    head = f"{sectors} sectors per request where {ideal} would do: "
    if not active:
        return head + "the lanes' addresses are not known"
    step = abs(pattern.stride) if pattern else 0
    if pattern is None:
        return head + _advise_scattered_global(line, active)
    offset = min(a for a in line.example if a is not None) % SECTOR_BYTES
    if pattern.period < WARP_SIZE and pattern.pitch:
        piece = step * (pattern.period - 1) + line.size
        if step <= line.size:
            start = piece >= SECTOR_BYTES and (offset or pattern.pitch % SECTOR_BYTES)
            why = "and some begin inside a sector" if start else f"each less than a sector of {SECTOR_BYTES} bytes"
            fix = "start each row at a multiple of 32 bytes" if start else "make the block at least a sector wide"
            gap = _format_bytes(abs(pattern.pitch))
            return f"{head}the warp takes pieces of {piece} bytes, {gap} apart, {why}; {fix}"
    if step == line.size or step == 0:
        return _advise_misaligned(head, line, offset)
    if step < line.size:
        return f"{head}lanes overlap: neighbours are {_format_bytes(step)} apart and take {line.size} each"
    used = f"so {max(line.size, SECTOR_BYTES * line.size // step)} of a sector's {SECTOR_BYTES} bytes are used"
    if pattern.period < WARP_SIZE:
        used = "so little of each sector is used"
    gap = f"neighbouring lanes are {_format_bytes(step)} apart, {used}"
    if ("." in _strip_comments_and_numbers(line.text) or "->" in line.text) and step <= 512:
        return (
            f"{head}{gap}; keep an array for each field (structure of arrays), or load whole structures as float4"
        )
    if step >= SECTOR_BYTES:
        return (
            f"{head}{gap}; let threadIdx.x run along the row, or copy rows to a tile in shared memory and "
            "read columns there"
        )
    return f"{head}{gap}; let neighbouring lanes take neighbouring elements"


def _advise_misaligned(head: str, line: LineReport, offset: int) -> str:
    if not offset:
        return head + "the lanes take neighbouring elements; other requests than the example do not"
    return (
        f"{head}the lanes take neighbouring elements, but start {_format_bytes(offset)} past the start of a "
        f"sector; pad rows to a multiple of {SECTOR_BYTES // line.size} elements, or accept it: L1 keeps the rest "
        "for the next warp"
    )


def _advise_scattered_global(line: LineReport, active: list[int]) -> str:
    touched = len({line.example[lane] // SECTOR_BYTES for lane in active})
    if len(active) < 3:
        return f"of the warp only {_pluralize(len(active), 'lane')} took part in the example"
    return (
        f"{len(active)} lanes touch {touched} sectors, and their addresses follow no pattern (an index that comes "
        "from data?); sort the indices, or gather through shared memory"
    )


def _words_per_lane(size: int) -> int:
    return max(1, size // 4)


def _format_banks(count: int) -> str:
    return "one bank" if count == 1 else f"{count} banks"


def _format_distance(step: int, size: int) -> str:
    """A distance as text: in words if elements are words."""
    if size == 4 and step % 4 == 0:
        return _pluralize(step // 4, "word")
    if size > 4 and step % size == 0:
        return f"{_pluralize(step // size, 'element')} of {size} bytes"
    return _format_bytes(step)


def _format_bytes(count: int) -> str:
    return _pluralize(count, "byte")


def _pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _format_average(total: int, requests: int) -> str:
    return f"{total / max(requests, 1):.1f}".removesuffix(".0")


def _strip_comments_and_numbers(text: str) -> str:
    """A line without comments and numbers, so that a dot in it means a member."""
    return re.sub(r"//.*|/\*.*?\*/|\b\d[\w.]*|\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*\w", " ", text)


def _has_two_subscripts(line: LineReport) -> bool:
    """Whether the line uses the variable with two subscripts: tile[tx][ty]."""
    name = re.escape(line.variable.partition("[")[0]) or r"[A-Za-z_]\w*"
    for match in re.finditer(rf"\b{name}\s*\[", line.text):
        depth, end = 1, match.end()
        while end < len(line.text) and depth:
            depth += {"[": 1, "]": -1}.get(line.text[end], 0)
            end += 1
        if line.text[end:].lstrip().startswith("["):
            return True
    return False


# ---- faults ----


def explain(fault: Fault) -> tuple[str, str]:
    """What a fault means, and how to fix it: a sentence each."""
    if fault.kind == "race":
        return _RACE_MEANINGS.get(fault.hazard, _RACE_MEANINGS[""]), _race_fix(fault)
    return _FAULT_TEXTS.get(fault.kind, ("", ""))


_RACE_MEANINGS = {
    "RAW": "RAW, read after write: nothing makes the reader wait for the writer, so it may get the old value.",
    "WAR": "WAR, write after read: nothing makes the writer wait for the reader, which may get the new value.",
    "WAW": "WAW, write after write: nothing orders the two writes, so either value may stay.",
    "": "Nothing orders the two accesses, so the result depends on which thread comes first.",
}


def between_blocks(fault: Fault) -> bool:
    """Whether the two threads of a race are of different blocks."""
    return fault.other_block is not None and fault.other_block != fault.block


def _race_fix(fault: Fault) -> str:
    here, other, other_file = fault.line, fault.other_line, fault.other_file or fault.file
    if between_blocks(fault):
        return (
            "No barrier inside a kernel orders blocks: split the kernel into two launches, use atomics, or "
            "publish with __threadfence() and an atomic flag or counter."
        )
    if fault.hazard == "WAW" and here == other and fault.file == other_file:
        return (
            "Let one thread write (`if (threadIdx.x == 0)`), give each thread its own element, or use an atomic."
        )
    if here is None or other is None:
        where = "between the two accesses"
    elif fault.file != other_file:
        where = f"between {other_file}:{other} and {fault.file}:{here}"
    else:
        where = f"between lines {other} and {here}"
    barrier = "__syncwarp()" if fault.warp_synchronous else "__syncthreads()"
    if here is not None and here == other and fault.file == other_file:
        fix = (
            f"Line {here} reads and writes: read into a register, put {barrier} there, then write; in a loop, one "
            "more before the next pass"
        )
    else:
        fix = f"Put {barrier} {where}"
    if fault.warp_synchronous:
        return (
            f"{fix}, or __syncthreads() if other warps touch the same data. The two threads are of one warp, but "
            "warps have not run in lock step since Volta; shuffles do not order memory either."
        )
    if here == other:
        return f"{fix}."
    if fault.hazard == "WAR":
        return f"{fix}, so that all have read before anyone writes again."
    return f"{fix}, where every thread of the block reaches it; or use atomics for both."


_FAULT_TEXTS = {
    "barrier": (
        "A barrier waits for every thread of the block; a GPU hangs here, or goes on with half of the data.",
        "Move the barrier out of the branch or loop, so that all threads reach the same one equally often; "
        "replace an early return by a guard around the work.",
    ),
    "out_of_bounds": (
        "The address lies outside the array: a GPU corrupts what is next to it, or ends the program.",
        "Guard the access, `if (i < n)`, with the array's real extent; at the edge of a tile check both indices.",
    ),
    "uninitialised": (
        "Shared memory holds whatever the last block left there, never zeros: the value read is garbage.",
        "Let the threads write every element that is read, halo and tail too, and put __syncthreads() after it.",
    ),
    "misaligned": (
        "A vector access needs an address that is a multiple of its size; a GPU ends the launch with an error.",
        "Start at a multiple of the vector (4 floats for float4) and give rows a multiple of it, or load scalars.",
    ),
    "shuffle": (
        "The source lane provides no value: it is not in the mask, it has exited, or the block does not have it. "
        "On a GPU the reader gets an undefined value, which is harmless only if the program never uses it.",
        "Let all 32 lanes reach the shuffle, those without work with a neutral value (0 for a sum), in blocks of "
        "whole warps; or restrict it to the active lanes: put only them in the mask, and choose the width, or the "
        "first distance of a loop, so that sources stay among them.",
    ),
    "hang": (
        "The launch never ends: it waits for something that does not happen.",
        "Look at what the loop waits for: a flag that nobody sets, a lock that a thread of the same warp holds, a "
        "block that is not resident; read flags with atomics or volatile.",
    ),
    "trap": (
        "The kernel stopped itself: a failed assert, __trap(), or a division by zero.",
        "Look at the values that led to this line; on a GPU the launch ends with an error, without results.",
    ),
}
