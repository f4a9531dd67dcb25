"""The report of a check: its data, and its text for a terminal.

drawing.py makes its HTML and its figures, advice.py its advice.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size

from smemkit import table
from smemkit.advice import advise, between_blocks, explain
from smemkit.timing import format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COUNTS_NOTE", "Fault", "LaunchReport", "LineReport", "Report"]

TEXT_WIDTH = 100  # columns of the text
MAX_TEXT_FAULTS = 8  # faults shown in full
COUNTS_NOTE = "Counts are as written in the source: the compiler may merge accesses."
FAULT_TITLES = {
    "race": "race",
    "barrier": "barrier divergence",
    "out_of_bounds": "out of bounds",
    "uninitialised": "uninitialised read",
    "misaligned": "misaligned access",
    "shuffle": "undefined shuffle",
    "hang": "endless wait",
    "trap": "trap",
}
NO_ACCESS_TEXT = "no access to shared or global memory was counted"
Index = tuple[int, int, int]


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
        and at least two more per warp. A line where one lane per warp stores the warp's result is not divergent.
        """
        more = self.requests - self.ideal_requests
        return 0 < self.ideal_requests <= more and more >= 2 * self.warps

    @property
    def advice(self) -> str:
        """The problem and its fix; "" if there is none."""
        return advise(self)


@dataclass(frozen=True)
class Fault:
    """An error of a kernel.

    Attributes
    ----------
    kind : {"race", "barrier", "out_of_bounds", "uninitialised", "misaligned", "shuffle", "hang", "trap"}
    line, other_line : int or None
        The source line; for a race, `other_line` is that of the earlier access.
    block : tuple of int
        The block's index.
    threads : tuple of tuple of int
        For a race: this thread, and the other one.
    variable : str
        The variable, such as "tile[3][5]", if it is known.
    message : str
        What happened.
    file, other_file, text
        The files of `line` and `other_line`, and the text of `line`.
    hazard : {"RAW", "WAR", "WAW", ""}
    warp_synchronous : bool
        The threads of a race are of one warp.
    count : int
        How many times it was seen.
    other_block : tuple of int or None
        The other thread's block, if it is not `block`.
    """

    kind: str
    line: int | None
    other_line: int | None = None
    block: Index = (0, 0, 0)
    threads: tuple[Index, ...] = ()
    variable: str = ""
    message: str = ""
    file: str = ""
    other_file: str = ""
    text: str = ""
    hazard: str = ""
    warp_synchronous: bool = False
    count: int = 1
    other_block: Index | None = None

    @property
    def title(self) -> str:
        """Its kind in words: "race (RAW, warp-synchronous)"."""
        words = [word for word in (self.hazard, "warp-synchronous" if self.warp_synchronous else "") if word]
        return FAULT_TITLES.get(self.kind, self.kind) + (f" ({', '.join(words)})" if words else "")

    @property
    def place(self) -> str:
        """File and line: "kernel.cu:14"."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def meaning(self) -> str:
        """What such a fault means."""
        return explain(self)[0]

    @property
    def remedy(self) -> str:
        """How to fix it."""
        return explain(self)[1]


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

    @property
    def remarks(self) -> tuple[str, ...]:
        """How much of it was checked, and the notes."""
        if self.blocks_checked >= self.blocks:
            checked = "all blocks checked" if self.blocks > 1 else "its one block checked"
        elif any("blocks were checked" in note for note in self.notes):
            return self.notes
        else:
            checked = f"{self.blocks_checked:,} of {pluralize(self.blocks, 'block')} checked, and counted below"
        return (checked, *self.notes)


@dataclass(frozen=True, eq=False, repr=False)
class Report(str):
    """The result of a check. It is also a str, the text that it prints, so that a failed ``assert report.ok,
    report`` shows all of it under pytest.

    Attributes
    ----------
    launches : tuple of LaunchReport
    seconds : float
        The duration of the check.
    sources : mapping of str to str
        The text of the files that lines and faults name, possibly without the library's own kernels.
    """

    launches: tuple[LaunchReport, ...]
    seconds: float
    sources: Mapping[str, str] = field(default_factory=dict)

    def __new__(
        cls, launches: Sequence[LaunchReport], seconds: float, sources: Mapping[str, str] | None = None
    ) -> Report:
        return super().__new__(cls, "\n".join(_report_lines(launches, seconds, SourceFiles(sources or {}))))

    def __post_init__(self) -> None:
        object.__setattr__(self, "launches", tuple(self.launches))

    def __getnewargs__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.launches, self.seconds, dict(self.sources)

    @property
    def ok(self) -> bool:
        """Whether there is no fault. Bank conflicts and wasted sectors are no faults: they cost time."""
        return not self.faults

    @property
    def lines(self) -> tuple[LineReport, ...]:
        """The lines of all launches."""
        return tuple(line for launch in self.launches for line in launch.lines)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of all launches."""
        return tuple(fault for launch in self.launches for fault in launch.faults)

    @property
    def headline(self) -> str:
        """The report in one line."""
        return headline(self.launches)

    def __repr__(self) -> str:
        return f"<Report {shorten(self.headline, 160)}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        from smemkit.drawing import html

        return html(self)

    def plot(self) -> Figure:
        """Wavefronts and sectors of each line against the ideal, and the bank map of the worst line.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            Matplotlib is not installed.
        """
        from smemkit.drawing import plot

        return plot(self)

    def to_dict(self) -> dict[str, Any]:
        """The report in plain types, for `json.dumps`.

        Returns
        -------
        dict
            "schema" is "smemkit.report" and "version" 1. Keys may be added; none is removed or changed.
        """
        launches = []
        for launch in self.launches:
            entry = _plain(launch)
            entry["lines"] = [_plain(line) | {"advice": line.advice} for line in launch.lines]
            entry["faults"] = [
                _plain(fault) | {"meaning": fault.meaning, "remedy": fault.remedy} for fault in launch.faults
            ]
            launches.append(entry)
        head = {"schema": "smemkit.report", "version": 1, "ok": self.ok, "headline": self.headline}
        return {**head, "as_written": COUNTS_NOTE, "seconds": float(self.seconds), "launches": launches}


def _plain(data: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON's types."""

    def plain(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [plain(item) for item in value]
        if value is None or isinstance(value, (bool, str)):
            return value
        if hasattr(value, "__dataclass_fields__"):
            return None  # to_dict fills these in
        return int(value) if hasattr(value, "__index__") else float(value)

    return {name: plain(getattr(data, name)) for name in data.__dataclass_fields__}


# ---- sources ----


class SourceFiles:
    """Source lines, of a report's files and of the library's own kernels."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = dict(texts)
        self.files: dict[str, list[str]] = {}

    def lines(self, file: str) -> list[str]:
        """The lines of a file, ready to be printed; empty if its text is not known."""
        if file not in self.files:
            text = self.texts[file] if file in self.texts else table.sources().get(file, "")
            self.files[file] = [printable(line) for line in text.split("\n")]
            if not text:
                self.files[file] = []
        return self.files[file]

    def excerpt(self, file: str, wanted: Iterable[int], context: int = 1) -> list[tuple[int, str] | None]:
        """The wanted lines with `context` lines around them, as (number, text); None for lines left out."""
        lines = self.lines(file)
        near = {n + d for n in wanted for d in range(-context, context + 1)}
        shown: list[tuple[int, str] | None] = []
        for number in sorted(n for n in near if 0 < n <= len(lines)):
            if shown and shown[-1] and number > shown[-1][0] + 1:
                hidden = range(shown[-1][0] + 1, number)
                shown += [(hidden[0], lines[hidden[0] - 1])] if len(hidden) == 1 else [None]
            shown.append((number, lines[number - 1]))
        while shown and shown[0] and not shown[0][1]:  # no empty lines at its ends
            shown.pop(0)
        while shown and shown[-1] and not shown[-1][1]:
            shown.pop()
        return shown


def dedent(rows: Sequence[tuple[int, str] | None]) -> list[tuple[int, str] | None]:
    """An excerpt without the common indentation of its lines."""
    margin = min((len(row[1]) - len(row[1].lstrip()) for row in rows if row and row[1]), default=0)
    return [row and (row[0], row[1][margin:]) for row in rows]


def printable(text: str) -> str:
    """A source line without tabs and control characters, so that it cannot control the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text.rstrip("\r\n").expandtabs(4)).rstrip()


# ---- formatting ----


def pluralize(number: int, noun: str) -> str:
    """A number and its noun, in the singular or the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_count(number: int) -> str:
    """A count as text: exact up to seven digits, then "12.3 M"."""
    if number < 10_000_000:
        return f"{number:,}"
    for scale, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M")):
        if number >= scale:
            return f"{number / scale:,.{2 if number < 10 * scale else 1 if number < 100 * scale else 0}f} {letter}"
    raise AssertionError(number)


def format_average(total: int, requests: int) -> str:
    """The average per request, as text: "4", "4.5"."""
    return f"{total / max(1, requests):,.1f}".removesuffix(".0")


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` columns; its middle is left out if necessary."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 3
    return set_cell_size(text, width - 1 - tail).rstrip() + "…" + text[len(text) - tail :].lstrip()[-tail:]


def format_dimensions(index: Sequence[int]) -> str:
    """A grid or block as text: 4 × 2, without trailing ones."""
    sizes = list(index)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return " × ".join(f"{size:,}" for size in sizes)


def headline(launches: Sequence[LaunchReport]) -> str:
    """A report in one line: the faults, or that there are none, and the worst conflict and waste."""
    faults = [fault for launch in launches for fault in launch.faults]
    lines = [line for launch in launches for line in launch.lines]
    if faults:
        locations = list(dict.fromkeys(f"{fault.title} at {fault.place}" for fault in faults))
        more = f" and {len(locations) - 2} more" if len(locations) > 2 else ""
        words = [f"{pluralize(len(faults), 'fault')}: {', '.join(locations[:2])}{more}"]
    else:
        words = ["no faults"]
    conflicts = [line for line in lines if line.conflicts]
    wasted = [line for line in lines if line.space == "global" and line.excess >= 2]
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


# ---- text ----


def _report_lines(launches: Sequence[LaunchReport], seconds: float, sources: SourceFiles) -> Iterator[str]:
    """The lines of `str(report)`."""
    faults = [(launch, fault) for launch in launches for fault in launch.faults]
    yield from _wrap(headline(launches), "✗ " if faults else "✓ ", "  ")
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
    tail = f"Checked in {format_seconds(seconds)}."
    yield from _wrap(f"{COUNTS_NOTE} {tail}" if any(launch.lines for launch in launches) else tail)


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
    where = f"{fault.title} at {fault.place}" if fault.file else fault.title
    facts = [where, *([fault.variable] if fault.variable else []), f"block {_format_index(fault.block)}"]
    if launch:
        facts.append(f"in {shorten(launch.kernel, 40)}")
    if fault.count > 1:
        facts.append(f"seen {fault.count:,} times")
    yield from _wrap(", ".join(facts), "✗ ", "    ")
    if fault.message:
        yield from _wrap(_as_sentence(fault.message), "    ", "    ")
    excerpts = list(fault_excerpts(fault, sources))
    for file, rows in excerpts:
        yield ""
        if len(excerpts) > 1:
            yield from _wrap(file, "    ", "    ")
        yield from _excerpt_lines(rows)
    meaning, remedy = explain(fault)
    yield ""
    if meaning and meaning not in explained:
        explained.add(meaning)
        yield from _wrap(meaning, "    means  ", " " * 11)
    if remedy:
        yield from _wrap(remedy, "    fix    ", " " * 11)


def _format_index(index: Sequence[int]) -> str:
    return f"({', '.join(map(str, index))})"


def _as_sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


ExcerptRow = tuple[int, str, str]  # number, text, what happened there


def fault_excerpts(fault: Fault, sources: SourceFiles) -> Iterator[tuple[str, list[ExcerptRow | None]]]:
    """For each file of a fault its lines, as (number, text, what happened there); None for lines left out."""
    other_file = fault.other_file or fault.file
    marks: dict[str, dict[int, str]] = {}
    now, then = {"RAW": ("reads", "wrote"), "WAR": ("writes", "read"), "WAW": ("writes", "wrote")}.get(
        fault.hazard, ("here", "and here")
    )
    if fault.kind == "race" and len(fault.threads) > 1:
        blocks = (fault.block, fault.other_block) if between_blocks(fault) else (None, None)
        now, then = (
            f"thread {_format_index(thread)} {f'of block {_format_index(block)} ' if block else ''}{verb}"
            for thread, block, verb in zip(fault.threads, blocks, (now, then), strict=False)
        )
    if fault.line is not None:
        marks.setdefault(fault.file, {})[fault.line] = now
    if fault.other_line is not None:
        notes = marks.setdefault(other_file, {})
        notes[fault.other_line] = ", ".join(n for n in (notes.get(fault.other_line), then) if n)
    for file, notes in marks.items():
        rows: list[ExcerptRow | None] = [
            row and (*row, notes.get(row[0], "")) for row in dedent(sources.excerpt(file, notes))
        ]
        if not rows and file == fault.file and fault.text:
            rows = [(fault.line, printable(fault.text).strip(), notes[fault.line])]
        if rows:
            yield file, rows


def _excerpt_lines(rows: Sequence[ExcerptRow | None]) -> Iterator[str]:
    """Source lines with their numbers; those where something happened are marked."""
    digits = max(len(str(row[0])) for row in rows if row)
    max_columns = TEXT_WIDTH - (9 + digits)
    longest = max((cell_len(row[1]) for row in rows if row and row[2]), default=0)
    for row in rows:
        if row is None:
            yield f"      {'⋮':>{digits}}"
            continue
        number, text, note = row
        if cell_len(text) > max_columns:
            text = set_cell_size(text, max_columns - 1).rstrip() + "…"
        line = f"    {'▸' if note else ' '} {number:>{digits}} │ {text}".rstrip()
        if not note:
            yield line
        elif longest + cell_len(note) + 4 <= max_columns:
            yield f"{line}{' ' * (longest - cell_len(text))}  ◂ {note}"
        else:
            yield line
            yield f"      {'':>{digits}} │ ▴ {note}"


# the table's columns: heading and width
_COLUMNS = (
    ("requests", 11),
    ("wavefronts", 12),
    ("conflicts", 11),
    ("n-way", 7),
    ("sectors/req", 13),
    ("ideal", 7),
)


def _launch_lines(launch: LaunchReport, which: str, sources: SourceFiles) -> Iterator[str]:
    facts = [f"grid {format_dimensions(launch.grid)}", f"block {format_dimensions(launch.block)}"]
    if launch.shared_bytes:
        facts.append(f"{pluralize(launch.shared_bytes, 'byte')} of shared memory")
    yield from _wrap(which + launch.kernel, "", "  ")
    yield from _wrap("; ".join([", ".join(facts), *launch.remarks]), "  ", "  ")
    groups = group_by_line(launch.lines)
    if not groups:
        yield "  " + NO_ACCESS_TEXT
        return
    digits = max(3, *(len(str(number)) for _, number in groups))
    first = TEXT_WIDTH - sum(width for _, width in _COLUMNS) - 1
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
        max_columns = TEXT_WIDTH - digits - 5
        text = text if cell_len(text) <= max_columns else set_cell_size(text, max_columns - 1) + "…"
        yield f"  {number:>{digits}} │ {text}".rstrip()
        printed_advice: set[str] = set()
        for line in lines:
            yield from _access_lines(line, digits, first, printed_advice)


def _access_lines(line: LineReport, digits: int, first: int, printed_advice: set[str]) -> Iterator[str]:
    """An access of a source line: its numbers, and its advice unless that is printed already."""
    label = f"  {'!' if line.wasteful or line.divergent else ' ':>{digits}}   {line.space} {line.access} "
    label += shorten(printable(line.variable), first - len(label))
    label += " " * (first - cell_len(label))
    yield (
        label + "".join(f"{cell:>{width}}" for cell, (_, width) in zip(table_cells(line), _COLUMNS, strict=True))
    ).rstrip()
    if (advice := advise(line)) and advice not in printed_advice:
        printed_advice.add(advice)
        yield from _wrap(advice, " " * (digits + 7), " " * (digits + 7))


def table_cells(line: LineReport) -> tuple[str, ...]:
    """A line's numbers, in the columns of the table."""
    if line.space == "shared":
        numbers = map(format_count, (line.requests, line.wavefronts, line.conflicts, line.degree))
        return (*numbers, "", "")
    per_request = (format_average(n, line.requests) for n in (line.sectors, line.ideal_sectors))
    return (format_count(line.requests), "", "", "", *per_request)


def group_by_line(lines: Iterable[LineReport]) -> dict[tuple[str, int], list[LineReport]]:
    """The accesses of each source line, in the order of the source."""
    groups: dict[tuple[str, int], list[LineReport]] = {}
    files = list(dict.fromkeys(line.file for line in lines))
    for line in sorted(lines, key=lambda line: (files.index(line.file), line.line)):
        groups.setdefault((line.file, line.line), []).append(line)
    return groups
