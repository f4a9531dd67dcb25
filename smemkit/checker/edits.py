"""Fixes as data: edits of source lines, and how they are applied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from smemkit.checker.statements import SourceText

__all__ = ["Edit", "Fix", "Insertion", "apply", "line_edits"]


@dataclass(frozen=True)
class Edit:
    """A change of one source line.

    Attributes
    ----------
    file, line
        The line, as numbered before any edit.
    kind : {"insert_after", "replace"}
    text : str
        The new lines, without a newline at their end. An empty text with "replace" deletes the line.
    """

    file: str
    line: int
    kind: str
    text: str


class Fix(str):
    """How to fix a fault, in words.

    Attributes
    ----------
    edits : tuple of Edit
        The same for a program; empty if the fix needs the author's judgement.
    shared_bytes : int or None
        The bytes of dynamic shared memory that the launch needs, if it gives too few.
    """

    edits: tuple[Edit, ...]
    shared_bytes: int | None

    def __new__(cls, text: str, edits: tuple[Edit, ...] = (), shared_bytes: int | None = None) -> Fix:
        fix = super().__new__(cls, text)
        fix.edits, fix.shared_bytes = edits, shared_bytes
        return fix

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Fix) and (self.edits, self.shared_bytes) != (other.edits, other.shared_bytes):
            return False
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[type[Fix], tuple[str, tuple[Edit, ...], int | None]]:
        return Fix, (str(self), self.edits, self.shared_bytes)


class Advice(Fix):
    """What holds for all faults of a kind, if nothing more is known of how to fix one."""


NO_FIX = Advice("")
Insertion = tuple[int, int, str]  # the text that replaces the source between two positions


def line_edits(file: str, source: SourceText, changes: Iterable[Insertion]) -> tuple[Edit, ...]:
    """Changes of ranges of a source as edits of its lines."""
    edits: list[Edit] = []
    inside: dict[tuple[int, int], list[Insertion]] = {}
    for start, end, text in sorted(changes):
        first, last = source.line(start), source.line(end)
        line_end = source.extent(first)[1]
        if start == end and text.startswith("\n") and not source.code[end:line_end].strip():
            edits.append(Edit(file, first, "insert_after", text[1:]))
        else:
            inside.setdefault((first, last), []).append((start, end, text))
    for (first, last), parts in inside.items():
        begin, finish = source.extent(first)[0], source.extent(last)[1]
        new = source.text[begin:finish]
        for start, end, text in reversed(parts):
            new = new[: start - begin] + text + new[end - begin :]
        edits.append(Edit(file, first, "replace", "" if not new.strip() else new))
        edits += [Edit(file, line, "replace", "") for line in range(first + 1, last + 1)]
    return tuple(sorted(edits, key=lambda edit: (edit.line, edit.kind)))


def apply(sources: Mapping[str, str], fixes: Sequence[Fix]) -> dict[str, str]:
    """The sources with the edits of several fixes. Where two replace one line in different ways, the first counts.

    Examples
    --------
    >>> apply({"k.cu": "a();\\nb();"}, [Fix("", (Edit("k.cu", 1, "insert_after", "__syncthreads();"),))])
    {'k.cu': 'a();\\n__syncthreads();\\nb();'}
    """
    result = {}
    for file, text in sources.items():
        edits = list(dict.fromkeys(edit for fix in fixes for edit in fix.edits if edit.file == file))
        lines: list[str] = []
        for number, line in enumerate(text.split("\n"), 1):
            here = [edit for edit in edits if edit.line == number]
            replaced = [edit.text for edit in here if edit.kind == "replace"]
            lines += [*((replaced[0],) if replaced[0] else ())] if replaced else [line]
            lines += [edit.text for edit in here if edit.kind == "insert_after"]
        result[file] = "\n".join(lines)
    return result


def indentation(source: SourceText, position: int) -> str:
    """The white space before the first word of the line at a position."""
    line = source.text[slice(*source.extent(source.line(position)))]
    return re.match(r"[ \t]*", line)[0]
