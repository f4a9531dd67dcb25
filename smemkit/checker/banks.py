"""The banks of shared memory: the cost of a warp's request, its pattern, and the lanes that each bank serves.

`find_pattern` fits the addresses of the lanes of one request with the pattern of nearly all kernels: rows of
`period` lanes, adjacent lanes `stride` bytes apart, rows `pitch` bytes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from smemkit import _core

__all__ = ["BANKS", "Access", "LaneAddresses", "Pattern", "bank_map", "find_pattern", "group_size", "wavefronts"]

WARP_SIZE = 32
BANKS = 32
LaneAddresses = Sequence["int | None"]


@dataclass(frozen=True)
class Access:
    """The cost of one request of a warp in shared memory.

    Attributes
    ----------
    wavefronts : int
        Passes of shared memory that the request takes.
    conflicts : int
        The wavefronts that bank conflicts add.
    degree : int
        The most words that one bank has to deliver at once: the n of an "n-way bank conflict", 1 without one.
    groups : int
        Groups of lanes, with at least one active lane, that are served one after the other. There are several if
        the lanes of a warp request more bytes than the banks have.
    banks : tuple of int
        The number of words that each bank delivers.
    """

    wavefronts: int
    conflicts: int
    degree: int
    groups: int
    banks: tuple[int, ...]


def wavefronts(
    addresses: Sequence[int | None], size: int = 4, *, store: bool = False, banks: int = 32, bank_width: int = 4
) -> Access:
    """The wavefronts and bank conflicts of one request of a warp in shared memory.

    Parameters
    ----------
    addresses : sequence of int or None, up to 32
        The byte address that each lane requests, a multiple of `size`; None for an inactive lane. Lanes beyond the
        end of the sequence are inactive.
    size : {4, 1, 2, 8, 16}
        Bytes per lane.
    store : bool
        Whether the request is a store.
    banks : {32, 16, 8, 4, 2}
        The number of banks; 16 on GPUs of compute capability 1.
    bank_width : {4, 8}
        Bytes per word of a bank; 8 on some GPUs of compute capability 3.

    Returns
    -------
    Access

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message names it.

    Notes
    -----
    For 32 banks of 4 bytes the result equals the hardware's counts: the tests compare 240 random requests with
    Nsight Compute's counts on an H200. A request is divided into groups of consecutive lanes: 32 lanes for up to 4
    bytes, 16 for 8 bytes, 8 for 16 bytes. A load has groups of twice as many lanes if every lane t has the address
    of lane t^1, or every lane t that of t^2. A group takes as many wavefronts as the busiest bank has distinct
    words to deliver to it. Other numbers and widths of banks are predictions by the same rule: today's GPUs have
    32 banks of 4 bytes.

    Examples
    --------
    >>> import smemkit
    >>> column = [128 * lane for lane in range(32)]  # of float tile[32][32]
    >>> smemkit.wavefronts(column).degree
    32
    >>> padded = [132 * lane for lane in range(32)]  # of float tile[32][33]
    >>> smemkit.wavefronts(padded).conflicts
    0
    """
    return Access(*_core.wavefronts(addresses, size, store, banks, bank_width)[:5])


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
    return _find_pattern(tuple(example))


@lru_cache(maxsize=1024)  # the lines of a report ask for theirs more than once
def _find_pattern(example: tuple[int | None, ...]) -> Pattern | None:
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


# ---- who is served when ----


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
