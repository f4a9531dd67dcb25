"""Kernels are independent: declarations that the compiler rejects are left out, with everything that needs them,
and the other kernels are compiled."""

from __future__ import annotations

import re
from bisect import bisect_right

from smemkit._core import CompileError
from smemkit.cuda_source.includes import line_markers
from smemkit.cuda_source.scanner import DeviceCode, Outline

__all__ = ["declarations_to_leave_out", "host_functions_to_keep"]

_QUOTED = re.compile(r"'(?:\w+::)*(\w+)[^']*'")
_UNDEFINED = re.compile(r"([A-Za-z_]\w*)\s*(?:<.*>)?\s*(?:\(.*)?$")


def declarations_to_leave_out(code: DeviceCode, error: CompileError) -> dict[Outline, CompileError]:
    """The declarations that have an error, and those that mention their names, each with its reason.

    A declaration's names include those of overloads and specialisations, so that no other one is taken in its
    place. It is empty if an error is in none of the declarations, or in an operator, which is not mentioned by
    name: then nothing can be left out safely.
    """
    reasons: dict[Outline, CompileError] = {}
    for failure in error.errors:
        outline = _outline_at(code, failure.file, failure.line)
        if outline is None or "operator_" in outline.names:
            return {}
        reasons.setdefault(outline, failure)
    for name in error.undefined:
        found = _UNDEFINED.search(name)
        for outline in code.outlines:
            if found and found[1] in outline.names:
                reasons.setdefault(outline, CompileError(f"{name} is declared but not defined"))
    return _with_dependents(code.outlines, reasons)


def host_functions_to_keep(code: DeviceCode, error: CompileError) -> frozenset[str]:
    """The left-out host functions that errors in types and in other host functions name, which are compiled with
    them. Not those that device code mentions: it cannot call them."""
    found: set[str] = set()
    for failure in error.errors:
        outline = _outline_at(code, failure.file, failure.line)
        if outline and outline.for_host:
            found |= code.host.keys() & set(_QUOTED.findall(str(failure)))
    for_device = (outline.words for outline in code.outlines if not outline.for_host)
    return frozenset(found.difference(*for_device))


def _with_dependents(outlines: tuple[Outline, ...], reasons: dict[Outline, CompileError]) -> dict:
    reasons = dict(reasons)
    todo = list(reasons)
    while todo:
        cause = todo.pop()
        for outline in outlines:
            if outline not in reasons and cause.names & (outline.words | outline.names):
                reasons[outline] = reasons[cause]
                todo.append(outline)
    return reasons


def _outline_at(code: DeviceCode, file: str, line: int | None) -> Outline | None:
    """The declaration at a line of a file, the first one if there are several."""
    for start, first, name, end in line_markers(code.text):
        last = first + code.text.count("\n", start, end)
        if name != file or line is None or not first <= line <= last:
            continue
        begins = start + _offset_of_line(code.text[start:end], line - first)
        ends = code.text.find("\n", begins)
        return _outline_between(code.outlines, begins, ends if ends >= 0 else len(code.text))
    return None


def _outline_between(outlines: tuple[Outline, ...], begins: int, ends: int) -> Outline | None:
    number = bisect_right([outline.start for outline in outlines], begins) - 1
    for outline in outlines[max(number, 0) : number + 2]:
        if outline.start < ends and outline.end > begins:
            return outline
    return None


def _offset_of_line(text: str, number: int) -> int:
    at = 0
    for _ in range(number):
        at = text.find("\n", at) + 1
    return at
