"""Excerpts of the sources that a report is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size

from smemkit.checker.faults import Fault, between_blocks
from smemkit.table import kernel_table

__all__ = ["SourceFiles", "dedent", "fault_excerpts", "format_index", "printable", "shorten"]

ExcerptRow = tuple[int, str, str]  # number, text, what happened there


class SourceFiles:
    """Source lines, of a report's files and of the library's own kernels."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = dict(texts)
        self.files: dict[str, list[str]] = {}

    def lines(self, file: str) -> list[str]:
        """The lines of a file, ready to be printed; empty if its text is not known."""
        if file not in self.files:
            text = self.texts[file] if file in self.texts else kernel_table.sources().get(file, "")
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
    text = text.rstrip("\r\n").expandtabs(4)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "�" for c in text)
    return text.rstrip()


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` columns; its middle is left out if necessary."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 3
    return set_cell_size(text, width - 1 - tail).rstrip() + "…" + text[len(text) - tail :].lstrip()[-tail:]


def fault_excerpts(fault: Fault, sources: SourceFiles) -> Iterator[tuple[str, list[ExcerptRow | None]]]:
    """For each file of a fault its lines, as (number, text, what happened there); None for lines left out."""
    other_file = fault.other_file or fault.file
    marks: dict[str, dict[int, str]] = {}
    now, then = {
        "RAW": ("reads", "wrote"),
        "WAR": ("writes", "read"),
        "WAW": ("writes", "wrote"),
        "proxy": ("reads", "wrote"),
    }.get(fault.hazard, ("here", "and here"))
    if fault.kind == "race" and len(fault.threads) > 1:
        blocks = (fault.block, fault.other_block) if between_blocks(fault) else (None, None)
        now, then = (
            f"thread {format_index(thread)} {f'of block {format_index(block)} ' if block else ''}{verb}"
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


def format_index(index: Sequence[int]) -> str:
    """A thread's or a block's index as text: (1, 0, 0)."""
    return f"({', '.join(map(str, index))})"
