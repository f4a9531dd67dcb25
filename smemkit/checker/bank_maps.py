"""The bank maps of a report: the lanes that each bank serves in each wavefront, for HTML and figures."""

from __future__ import annotations

from collections.abc import Sequence

from smemkit.checker.banks import BANKS, LaneAddresses, bank_map
from smemkit.checker.lines import LineReport

__all__ = ["bank_map_rows", "bank_map_title", "cell_text", "map_rows", "worst_lines"]

MAX_BANK_MAPS = 2  # bank maps in a notebook


def worst_lines(lines: Sequence[LineReport]) -> list[LineReport]:
    """The lines of shared memory whose bank maps are shown: those with conflicts, worst first; otherwise the
    busiest."""
    lines = [line for line in lines if line.space == "shared" and any(a is not None for a in line.example)]
    lines.sort(key=lambda line: (-line.conflicts, -line.degree, -line.wavefronts))
    return [line for line in lines if line.conflicts][:MAX_BANK_MAPS] or lines[:1]


def bank_map_title(line: LineReport) -> str:
    """The access that a bank map shows: "kernel.cu:14, shared load of tile, 32-way"."""
    what = f"{line.file}:{line.line}, {line.space} {line.access}" + (
        f" of {line.variable}" if line.variable else ""
    )
    return f"{what}, {line.degree}-way" if line.conflicts else f"{what}, no conflict"


def bank_map_rows(line: LineReport) -> list[tuple[bool, list[tuple[int, ...]], list[bool]]]:
    """The bank map of the line's example."""
    return map_rows(line.example, line.size, store=line.access != "load")


def map_rows(
    addresses: LaneAddresses, size: int, *, store: bool = False
) -> list[tuple[bool, list[tuple[int, ...]], list[bool]]]:
    """Per wavefront of a bank map: whether it begins a group of lanes, the lanes of each bank, and whether the
    bank delivers several words to the group."""
    rows = []
    for number, group in enumerate(bank_map(addresses, size, store=store)):
        crowded = [sum(bool(row[bank]) for row in group) > 1 for bank in range(BANKS)]
        rows += [(index == 0 and number > 0, row, crowded) for index, row in enumerate(group)]
    return rows


def cell_text(lanes: Sequence[int]) -> str:
    """The lane that a bank serves, or how many of them with one word."""
    return str(lanes[0]) if len(lanes) == 1 else f"{len(lanes)}×"
