"""The accesses of a source line, and advice on them.

The advice comes from the line's example, the addresses of the lanes of one request, if they follow a pattern (see
banks.py). Other addresses are called scattered, and nothing is guessed about them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from smemkit import _core
from smemkit.checker.banks import BANKS, WARP_SIZE, LaneAddresses, Pattern, find_pattern
from smemkit.cuda_source.lexer import mask, matching_bracket
from smemkit.measure.formats import format_average, pluralize

__all__ = ["LineReport", "advise"]

SECTOR_BYTES = 32
_CHUNK, _TURN = 16, 4 * BANKS  # bytes of a lane's vector, which wmma keeps rows a multiple of; bytes of all banks


@dataclass(frozen=True)
class LineReport:
    """The accesses of one kind that one source line makes, over all warps that were checked.

    Attributes
    ----------
    file, line, text
        The source line.
    space : {"shared", "global"}
    access : {"load", "store", "atomic"}
    requests : int
        Accesses by a warp.
    wavefronts, conflicts, degree : int
        Passes of shared memory, those of them that bank conflicts caused, and the n of the worst "n-way bank
        conflict" (1 without one). 0 for global memory.
    sectors, ideal_sectors : int
        Sectors of 32 bytes that the requests touched, and the fewest that could hold as many bytes. 0 for shared
        memory.
    size : int
        Bytes per lane.
    variable : str
        The array, if it is known.
    example : tuple of int or None
        Byte addresses of the lanes of the worst request, relative to the array's start if it is known.
    lanes, ideal_requests : int
        Active lanes, over all requests; and the requests needed if the active lanes of a block between two
        barriers were packed into full warps. 0 if that is not known.
    warps : int
        Warps that were checked, including those that did not execute the line.
    """

    file: str
    line: int
    text: str
    space: str
    access: str
    requests: int
    wavefronts: int = 0
    conflicts: int = 0
    degree: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    size: int = 4
    variable: str = ""
    example: tuple[int | None, ...] = field(default=(), repr=False)
    lanes: int = 0
    ideal_requests: int = 0
    warps: int = 0

    @property
    def excess(self) -> float:
        """Its cost divided by the ideal cost: wavefronts without conflicts, or ideal sectors; 1 is the best."""
        if self.space == "shared":
            return self.wavefronts / max(1, self.wavefronts - self.conflicts) if self.conflicts else 1.0
        return max(1.0, self.sectors / max(1, self.ideal_sectors))

    @property
    def wasteful(self) -> bool:
        """Whether it has bank conflicts, or touches at least 10 % more sectors than the ideal."""
        return self.conflicts > 0 or self.excess >= 1.1

    @property
    def divergent(self) -> bool:
        """Whether its active lanes are spread over mostly idle warps: at least twice the requests of full warps,
        and at least two more per warp, or idle lanes between the active ones, as in `if (i % 2) … else …`. A line
        where one lane per warp stores the warp's result is not divergent, nor is one that one thread executes for
        others, such as an arrival at an mbarrier.
        """
        if _FOR_OTHERS.search(self.text):
            return False
        more = self.requests - self.ideal_requests
        return 0 < self.ideal_requests <= more and (more >= 2 * self.warps or self.interleaved)

    @property
    def interleaved(self) -> bool:
        """Whether at most every second lane is active in the example, with idle lanes between them."""
        active = _active_lanes(self.example)
        return len(active) > 2 and 2 * len(active) <= active[-1] - active[0] + 2

    @property
    def wastes_idle_lanes(self) -> bool:
        """Whether the access would be coalesced if the idle lanes between the active ones took part."""
        pattern = find_pattern(self.example) if self.space == "global" and self.divergent else None
        return bool(
            pattern and self.interleaved and pattern.period == WARP_SIZE and abs(pattern.stride) == self.size
        )

    @property
    def advice(self) -> str:
        """The problem and its fix; "" if there is none."""
        return advise(self)


# ---- advice ----


def advise(line: LineReport) -> str:
    """The problem in a line's use of memory and its fix; "" if there is none."""
    if not line.wasteful or line.wastes_idle_lanes:
        advice = _advise_contention(line)
    else:
        advice = _advise_shared(line) if line.space == "shared" else _advise_global(line)
    return "; ".join(filter(None, (advice, _advise_divergence(line))))


def _advise_divergence(line: LineReport) -> str:
    """Warps that execute the line with few active lanes."""
    if not line.divergent:
        return ""
    return (
        f"divergent: {format_average(line.lanes, line.requests)} of {WARP_SIZE} lanes active on average, "
        f"{format_average(line.requests, line.ideal_requests)} times the requests that full warps would "
        "make; give the work to consecutive threads, so that warps are full or idle"
    )


def _active_lanes(example: LaneAddresses) -> list[int]:
    return [lane for lane, address in enumerate(example) if address is not None]


def _advise_contention(line: LineReport) -> str:
    """Atomics on one address: their cost shows neither in wavefronts nor in sectors."""
    addresses = [address for address in line.example if address is not None]
    if line.access != "atomic" or _FOR_OTHERS.search(line.text) or len(addresses) < 3 or len(set(addresses)) > 1:
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
    is_copy = line.access == "store" and _COPY.search(line.text)
    if is_copy and not _core.wavefronts(line.example, line.size, True, BANKS, 4)[1]:
        return head + _SAME_PLACES
    if pattern is None:
        return head + (_advise_two_lanes(line, active) if len(active) == 2 else _advise_scattered_shared(line))
    step, pitch = abs(pattern.stride), abs(pattern.pitch)
    if (
        line.size == _CHUNK
        and _TILE_COPY.search(line.text)
        and (swizzle := _advise_swizzle(line, pattern, active))
    ):
        return head + swizzle
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


_SAME_PLACES = (  # of a copy through the L1 cache
    "the copy has no conflict where it writes, but its lanes read from the same place of a line of 128 bytes, or "
    "even from the same address, one wavefront each; let neighbouring lanes read neighbouring elements"
)
_COPY = re.compile("async", re.IGNORECASE)
# instructions that one thread may execute for a warp or a block, or that all may execute as a wait
_FOR_OTHERS = re.compile(
    r"\bmbarrier[._]\w|\btensormap[._]\w|(?:\.|::|->)(?:arrive|wait|try_wait|test_wait)(?:_\w+)?\s*\("
)
_TILE_COPY = re.compile("matrix|async", re.IGNORECASE)  # instructions whose lanes take rows of a tile


def _advise_swizzle(line: LineReport, pattern: Pattern, active: list[int]) -> str:
    """Lanes of 16 bytes in rows of several, as those of ldmatrix, stmatrix and cp.async: an XOR of the row into
    the column, if it leaves no conflict. "" for other patterns, and if it does not help."""
    width = max(abs(pattern.stride), abs(pattern.pitch))
    across = {abs(pattern.stride), abs(pattern.pitch)} - {0, width}  # between the lanes of a row, if several
    if (width % _TURN and width not in (32, 64)) or across - {_CHUNK}:
        return ""
    turn = max(1, _TURN // width)  # rows that use all banks together
    columns = min(width, _TURN) // _CHUNK
    moved: list[int | None] = [None] * WARP_SIZE
    addresses = pattern.addresses(active)
    for lane in active:
        row, column = divmod(addresses[lane] // _CHUNK, width // _CHUNK)
        moved[lane] = row * width + _CHUNK * (column ^ row // turn % columns)
    wavefronts, conflicts = _core.wavefronts(moved, line.size, line.access != "load", BANKS, 4)[:2]
    if conflicts:
        return ""
    row_text = "row" if turn == 1 else f"row / {turn}"
    return (
        f"rows are {width} bytes apart, and {'all' if turn == 1 else f'one in {turn}'} of them begin at the same "
        f"bank; XOR the row into the 16-byte column (column ^ {row_text} % {columns}) wherever the tile is "
        f"written or read: {pluralize(wavefronts, 'wavefront')} per request, no conflicts; or pad the row to "
        f"{width + _CHUNK} bytes"
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
        f"the lanes request scattered words ({who} meet in bank {bank}) and follow no pattern that padding would "
        "fix; if the index comes from data, sort it or keep copies of the table"
    )


def _best_pad(line: LineReport, pattern: Pattern, *, pitch: bool) -> int:
    """The padding in elements, from 1 to 32, that leaves the fewest conflicts; 0 if none helps."""
    active = _active_lanes(line.example)
    size, store = line.size, line.access != "load"
    step = _CHUNK // size if "_matrix_sync" in line.text else 1  # wmma's leading dimensions

    def conflicts(pad: int) -> int:
        more = pad * size
        stride, rows = abs(pattern.stride), abs(pattern.pitch)
        moved = Pattern(
            stride + (0 if pitch else more), pattern.period, rows + (more if pitch else 0), pattern.phase
        )
        return _core.wavefronts(moved.addresses(active), size, store, BANKS, 4)[1]

    return min(range(0, WARP_SIZE + 1, step), key=lambda pad: (conflicts(pad), pad))


def _advise_global(line: LineReport) -> str:
    active, pattern = _active_lanes(line.example), find_pattern(line.example)
    sectors, ideal = (format_average(n, line.requests) for n in (line.sectors, line.ideal_sectors))
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
        return f"of the warp only {pluralize(len(active), 'lane')} took part in the example"
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
        return pluralize(step // 4, "word")
    if size > 4 and step % size == 0:
        return f"{pluralize(step // size, 'element')} of {size} bytes"
    return _format_bytes(step)


def _format_bytes(count: int) -> str:
    return pluralize(count, "byte")


def _strip_comments_and_numbers(text: str) -> str:
    """A line without comments and numbers, so that a dot in it means a member."""
    return re.sub(r"\b\d[\w.]*|\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*\w", " ", mask(text))


def _has_two_subscripts(line: LineReport) -> bool:
    """Whether the line uses the variable with two subscripts: tile[tx][ty]."""
    name = re.escape(line.variable.partition("[")[0]) or r"[A-Za-z_]\w*"
    for match in re.finditer(rf"\b{name}\s*\[", line.text):
        end = matching_bracket(line.text, match.end() - 1) + 1
        if line.text[end:].lstrip().startswith("["):
            return True
    return False
