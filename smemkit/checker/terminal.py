"""A report as text, for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size

from smemkit.checker.excerpts import ExcerptRow, SourceFiles, fault_excerpts, format_index, printable, shorten
from smemkit.checker.faults import Fault, explain
from smemkit.checker.launches import (
    COUNTS_NOTE,
    NO_ACCESS_TEXT,
    LaunchReport,
    as_sentence,
    asynchronous_facts,
    group_by_line,
    headline,
    knock_on_text,
    launch_facts,
    table_cells,
)
from smemkit.checker.lines import LineReport
from smemkit.measure.formats import format_seconds, pluralize

__all__ = ["text"]

TEXT_WIDTH = 80  # columns of the text
MAX_TEXT_FAULTS = 8  # faults shown in full


def text(launches: Sequence[LaunchReport], seconds: float, sources: Mapping[str, str]) -> str:
    """The text of a report; `sources` are the files that its lines and faults name."""
    return "\n".join(_report_lines(launches, seconds, SourceFiles(sources)))


def _report_lines(launches: Sequence[LaunchReport], seconds: float, sources: SourceFiles) -> Iterator[str]:
    """The lines of `str(report)`."""
    faults = [(launch, fault) for launch in launches for fault in launch.faults]
    errors = any(fault.severity == "error" for _, fault in faults)
    yield from _wrap(headline(launches), "✗ " if errors else "✓ ", "  ")
    explained: set[str] = set()
    for launch, fault in faults[:MAX_TEXT_FAULTS]:
        yield ""
        yield from _fault_lines(fault, launch if len(launches) > 1 else None, sources, explained)
    if len(faults) > MAX_TEXT_FAULTS:
        kinds = Counter(fault.title for _, fault in faults[MAX_TEXT_FAULTS:])
        rest = ", ".join(f"{number} × {kind}" for kind, number in kinds.items())
        yield ""
        yield from _wrap(
            f"and {pluralize(len(faults) - MAX_TEXT_FAULTS, 'more fault')}: {rest}; report.faults has all",
            "✗ ",
            "  ",
        )
    for number, launch in enumerate(launches, 1):
        yield ""
        yield from _launch_lines(
            launch, f"launch {number} of {len(launches)}: " if len(launches) > 1 else "", sources
        )
    yield ""
    if any(launch.lines for launch in launches):
        yield from _wrap(COUNTS_NOTE)
    yield f"Checked in {format_seconds(seconds)}."


def _wrap(text: str, first: str = "", rest: str = "") -> list[str]:
    """Text wrapped at words. It may hold any character, because it may come from a kernel's name or a message."""
    text = " ".join(printable(part) for part in text.splitlines())
    lines, width = [], TEXT_WIDTH - max(len(first), len(rest))
    for piece in textwrap.wrap(text, width, break_on_hyphens=False) or [""]:
        while cell_len(piece) > width:  # some characters take two columns
            fitting = set_cell_size(piece, width).rstrip()
            lines.append(fitting)
            piece = piece[len(fitting) :].lstrip()
        lines.append(piece)
    return [first + lines[0], *(rest + line for line in lines[1:])]


def _fault_lines(
    fault: Fault, launch: LaunchReport | None, sources: SourceFiles, explained: set[str]
) -> Iterator[str]:
    where = f"{fault.title} at {fault.location}" if fault.file else fault.title
    facts = [where, *([fault.variable] if fault.variable else []), f"block {format_index(fault.block)}"]
    if launch:
        facts.append(f"in {shorten(launch.kernel, 40)}")
    if fault.count > 1:
        facts.append(f"seen {fault.count:,} times")
    yield from _wrap(", ".join(facts), "✗ " if fault.severity == "error" else "! ", "    ")
    if fault.message:
        yield from _wrap(as_sentence(fault.message), "    ", "    ")
    excerpts = list(fault_excerpts(fault, sources))
    for file, rows in excerpts:
        yield ""
        if len(excerpts) > 1:
            yield from _wrap(file, "    ", "    ")
        yield from _excerpt_lines(rows)
    meaning, fix = explain(fault)
    yield ""
    if meaning and meaning not in explained:
        explained.add(meaning)
        yield from _wrap(meaning, "    means  ", " " * 11)
    if fix:
        yield from _wrap(fix, "    fix    ", " " * 11)
    if more := knock_on_text(fault):
        yield from _wrap(more, " " * 11, " " * 11)


def _excerpt_lines(rows: Sequence[ExcerptRow | None]) -> Iterator[str]:
    """Source lines with their numbers; those where something happened are marked."""
    digits = max(len(str(row[0])) for row in rows if row)
    max_columns = TEXT_WIDTH - (7 + digits)
    longest = max((cell_len(row[1]) for row in rows if row and row[2]), default=0)
    for row in rows:
        if row is None:
            yield f"    {'⋮':>{digits}}"
            continue
        number, text, note = row
        if cell_len(text) > max_columns:
            text = set_cell_size(text, max_columns - 1).rstrip() + "…"
        line = f"  {'▸' if note else ' '} {number:>{digits}} │ {text}".rstrip()
        if not note:
            yield line
        elif longest + cell_len(note) + 4 <= max_columns:
            yield f"{line}{' ' * (longest - cell_len(text))}  ◂ {note}"
        else:
            yield line
            margin = f"    {'':>{digits}} │ "
            yield from _wrap(note, f"{margin}▴ ", f"{margin}  ")


# the table's columns: heading and width
_COLUMNS = (
    ("requests", 9),
    ("lanes", 6),
    ("wavefronts", 11),
    ("conflicts", 10),
    ("n-way", 6),
    ("sectors", 8),
    ("ideal", 6),
)


def _launch_lines(launch: LaunchReport, which: str, sources: SourceFiles) -> Iterator[str]:
    yield from _wrap(which + launch.kernel, "", "  ")
    yield from _wrap("; ".join([launch_facts(launch), *launch.remarks]), "  ", "  ")
    for fact in asynchronous_facts(launch):
        yield from _wrap(fact, "  ", "    ")
    groups = group_by_line(launch.lines)
    if not groups:
        yield "  " + NO_ACCESS_TEXT
        return
    digits = max(2, *(len(str(number)) for _, number in groups))
    first = TEXT_WIDTH - sum(width for _, width in _COLUMNS)
    file = None
    for (name, number), lines in groups.items():
        if name != file:
            yield ""
            heading = shorten(printable(name), first - 2)
            if file is None:
                heading += " " * (first - cell_len(heading)) + "".join(f"{n:>{w}}" for n, w in _COLUMNS)
            yield heading
            file = name
        text = (sources.lines(name)[number - 1 : number] or [printable(lines[0].text)])[0].strip()
        max_columns = TEXT_WIDTH - digits - 4
        text = text if cell_len(text) <= max_columns else set_cell_size(text, max_columns - 1) + "…"
        yield f" {number:>{digits}} │ {text}".rstrip()
        printed_advice: set[str] = set()
        for line in lines:
            yield from _access_lines(line, digits, first, printed_advice)


def _access_lines(line: LineReport, digits: int, first: int, printed_advice: set[str]) -> Iterator[str]:
    """An access of a source line: its numbers, and its advice unless that is printed already."""
    label = f" {'!' if line.wasteful or line.divergent else ' ':>{digits}}  {line.space} {line.access} "
    label += shorten(printable(line.variable), TEXT_WIDTH - len(label))
    if cell_len(label) > first:
        yield label
        label = ""
    label += " " * (first - cell_len(label))
    yield (
        label + "".join(f"{cell:>{width}}" for cell, (_, width) in zip(table_cells(line), _COLUMNS, strict=True))
    ).rstrip()
    if (advice := line.advice) and advice not in printed_advice:
        printed_advice.add(advice)
        yield from _wrap(advice, " " * (digits + 5), " " * (digits + 5))
