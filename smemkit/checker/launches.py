"""The report of one launch, and what terminal, notebook and figures show of it in the same words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smemkit.checker.excerpts import printable
from smemkit.checker.faults import Fault, Index
from smemkit.checker.lines import LineReport
from smemkit.measure.formats import format_average, format_count, format_dimensions, pluralize

__all__ = [
    "COUNTS_NOTE",
    "LaunchReport",
    "WaitReport",
    "as_sentence",
    "asynchronous_facts",
    "group_by_line",
    "headline",
    "knock_on_text",
    "launch_facts",
    "table_cells",
]

COUNTS_NOTE = "Counts are as written in the source: the compiler may merge accesses."
NO_ACCESS_TEXT = "no access to shared or global memory was counted"


@dataclass(frozen=True)
class WaitReport:
    """The waits for mbarriers at one line, over the checked blocks.

    Attributes
    ----------
    file, line, text
    passed : int
        Waits that found their phase complete.
    idle : int
        Tries that found it incomplete: a thread that polls makes one per turn, so they are its idle steps in the
        executor, not a time. Lines are to be compared within one report.
    """

    file: str
    line: int
    text: str
    passed: int
    idle: int


@dataclass(frozen=True)
class LaunchReport:
    """The report of one launch.

    Attributes
    ----------
    kernel : str
    grid, block : tuple of int
    shared_bytes : int
        Bytes of shared memory per block.
    blocks_checked, blocks : int
        The number of blocks that were checked, and that of all blocks.
    lines : tuple of LineReport
    faults : tuple of Fault
    notes : tuple of str
        Further remarks, such as which blocks were checked.
    allowed : tuple of Fault
        Faults that comments in the source accept; `faults` is without them.
    barriers : int
        Barriers of whole blocks, such as `__syncthreads`, that the checked blocks completed: a block of 256
        threads that meets once counts as 1.
    cluster : tuple of int or None
        The blocks of a cluster; None for a launch without clusters.
    copies_in_flight, bytes_in_flight : int
        The most asynchronous copies, and the most bytes of them, that a block had started and not yet waited for:
        of a pipeline, the stages that are filled ahead. What a bulk copy multicasts counts once per receiving
        block; of copies of single threads (cp.async) it is the sum of each thread's most.
    waits : tuple of WaitReport
        The waits for mbarriers, by line: which side of a pipeline waits for the other.
    """

    kernel: str
    grid: Index
    block: Index
    shared_bytes: int
    blocks_checked: int
    blocks: int
    lines: tuple[LineReport, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    allowed: tuple[Fault, ...] = ()
    barriers: int = 0
    cluster: Index | None = None
    copies_in_flight: int = 0
    bytes_in_flight: int = 0
    waits: tuple[WaitReport, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """How much of it was checked, and the notes."""
        if self.blocks_checked >= self.blocks:
            checked = "all blocks checked" if self.blocks > 1 else "its one block checked"
        elif any("blocks were checked" in note for note in self.notes):
            return (*self.notes, *self._allowed_notes())
        else:
            checked = f"{self.blocks_checked:,} of {pluralize(self.blocks, 'block')} checked, and counted below"
        return (checked, *self.notes, *self._allowed_notes())

    def _allowed_notes(self) -> list[str]:
        """The allowed faults, with their reasons."""
        reasons = [
            f"{fault.title} at {fault.location} ({fault.allowed or 'no reason given'})" for fault in self.allowed
        ]
        return [f"allowed: {', '.join(dict.fromkeys(reasons))}"] if reasons else []


def headline(launches: Sequence[LaunchReport]) -> str:
    """A report in one line: the faults, or that there are none, and the worst conflict and waste."""
    faults = [fault for launch in launches for fault in launch.faults]
    lines = [line for launch in launches for line in launch.lines]
    words = _verdict(faults, _extent(launches))
    if allowed := sum(len(launch.allowed) for launch in launches):
        words.append(f"{pluralize(allowed, 'fault')} allowed by comments")
    conflicts = [line for line in lines if line.conflicts]
    wasted = [line for line in lines if line.space == "global" and line.excess >= 2 and not line.wastes_idle_lanes]
    if conflicts:
        worst = max(conflicts, key=lambda line: (line.degree, line.conflicts))
        at = f"{worst.degree}-way bank conflict at {worst.file}:{worst.line}"
        a = "an" if worst.degree in (8, 11, 18) else "a"
        many = f"{len(conflicts)} lines with bank conflicts, the worst {a} "
        words.append((many if len(conflicts) > 1 else "") + at)
    if wasted:
        worst = max(wasted, key=lambda line: line.excess)
        ratio = format_average(worst.sectors, worst.ideal_sectors)
        words.append(f"{ratio} × the ideal sectors at {worst.file}:{worst.line}")
    if divergent := [line for line in lines if line.divergent]:
        worst = max(divergent, key=lambda line: line.requests - line.ideal_requests)
        active = f"{format_average(worst.lanes, worst.requests)} of 32 lanes active"
        words.append(f"divergent warps at {worst.file}:{worst.line}, {active}")
    if not faults and not conflicts and not wasted and not divergent and lines:
        words.append("no bank conflicts, no wasted sectors to speak of")
    return printable("; ".join(words))


def _extent(launches: Sequence[LaunchReport]) -> str:
    """How many blocks a verdict is based on: " in 16 of 4,000 blocks"."""
    checked, blocks = (sum(getattr(launch, name) for launch in launches) for name in ("blocks_checked", "blocks"))
    if not blocks:
        return ""
    return f" in {checked:,} of {blocks:,} blocks" if checked < blocks else f" in {pluralize(blocks, 'block')}"


def _verdict(faults: Sequence[Fault], extent: str) -> list[str]:
    """Errors with their locations, or that there are none; and the warnings."""
    words = []
    for severity, noun in (("error", "fault"), ("warning", "warning")):
        found = [fault for fault in faults if fault.severity == severity]
        locations = list(dict.fromkeys(f"{fault.title} at {fault.location}" for fault in found))
        more = f" and {len(locations) - 2} more" if len(locations) > 2 else ""
        if found:
            where = "" if words else extent
            words.append(f"{pluralize(len(found), noun)}{where}: {', '.join(locations[:2])}{more}")
        elif severity == "error":
            words.append(f"no {'errors' if faults else 'faults'}{extent}")
    return words


def knock_on_text(fault: Fault) -> str:
    """The faults that a fix removes as well, in one sentence; "" if there are none."""
    if not fault.knock_on:
        return ""
    names = [
        f"{consequence.title} at {consequence.location}"
        + (f" ({consequence.variable})" if consequence.variable else "")
        for consequence in fault.knock_on[:4]
    ]
    more = f" and {len(fault.knock_on) - 4} more" if len(fault.knock_on) > 4 else ""
    return f"The same fix removes {', '.join(names)}{more}."


def launch_facts(launch: LaunchReport) -> str:
    """The shape of a launch: "grid 4, block 256, 1,024 bytes of shared memory"."""
    facts = [f"grid {format_dimensions(launch.grid)}", f"block {format_dimensions(launch.block)}"]
    if launch.cluster:
        facts.append(f"cluster {format_dimensions(launch.cluster)}")
    if launch.shared_bytes:
        facts.append(f"{pluralize(launch.shared_bytes, 'byte')} of shared memory")
    return ", ".join(facts)


def asynchronous_facts(launch: LaunchReport) -> list[str]:
    """The copies in flight, and the waits, those with the most idle steps first: a line each."""
    facts = []
    if launch.copies_in_flight:
        copies = pluralize(launch.copies_in_flight, "asynchronous copy", "asynchronous copies")
        facts.append(f"at most {copies} of {pluralize(launch.bytes_in_flight, 'byte')} in flight per block")
    for wait in sorted(launch.waits, key=lambda wait: -wait.idle):
        idle = f"{pluralize(wait.idle, 'idle step')}, {pluralize(wait.passed, 'wait')} passed"
        facts.append(f"{wait.file}:{wait.line}: {idle}: {wait.text}")
    return facts


def group_by_line(lines: Iterable[LineReport]) -> dict[tuple[str, int], list[LineReport]]:
    """The accesses of each source line, in the order of the source."""
    groups: dict[tuple[str, int], list[LineReport]] = {}
    files = list(dict.fromkeys(line.file for line in lines))
    for line in sorted(lines, key=lambda line: (files.index(line.file), line.line)):
        groups.setdefault((line.file, line.line), []).append(line)
    return groups


def table_cells(line: LineReport) -> tuple[str, ...]:
    """A line's numbers, in the columns of the table."""
    lanes = format_average(line.lanes, line.requests) if line.lanes else ""
    if line.space == "shared":
        numbers = map(format_count, (line.wavefronts, line.conflicts, line.degree))
        return (format_count(line.requests), lanes, *numbers, "", "")
    per_request = (format_average(n, line.requests) for n in (line.sectors, line.ideal_sectors))
    return (format_count(line.requests), lanes, "", "", "", *per_request)


def as_sentence(text: str) -> str:
    """A message with a capital letter and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
