"""Comments that accept findings: ``// smemkit: allow(race) reason``.

A comment beside code is about the findings of that line; one on a line of its own, about those of the next line of
code. Several kinds are separated by commas. A race is accepted at either of its two lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from smemkit.checker.faults import FAULT_TITLES, Fault
from smemkit.checker.launches import LaunchReport
from smemkit.cuda_source.lexer import mask

__all__ = ["COST_KINDS", "Allowances", "accept", "read_allowances"]

COST_KINDS = ("conflict", "sectors")  # of lines: bank conflicts, and sectors beyond the ideal
Allowances = Mapping[tuple[str, int], Mapping[str, str]]  # file and line → kind → reason
_COMMENT = re.compile(
    r"(?://|/\*)[ \t]*smemkit[ \t]*:[ \t]*allow\b[ \t]*(?:\((?P<kinds>[^)\n]*)\))?(?P<reason>[^\n]*)"
)


def read_allowances(sources: Mapping[str, str]) -> Allowances:
    """What the comments of these files accept.

    Parameters
    ----------
    sources : mapping
        Filename → text.

    Returns
    -------
    mapping of (str, int) to mapping
        File and line → kind → reason; the reason may be "".

    Raises
    ------
    ValueError
        A comment names no kind, or one that does not exist.

    Examples
    --------
    >>> read_allowances({"k.cu": "x[i] = 1;  // smemkit: allow(race) every thread writes 1"})
    {('k.cu', 1): {'race': 'every thread writes 1'}}
    """
    found: dict[tuple[str, int], dict[str, str]] = {}
    for file, text in sources.items():
        comments = list(_COMMENT.finditer(text))
        code = mask(text).split("\n") if comments else []
        for comment in comments:
            line = text.count("\n", 0, comment.start()) + 1
            reason = comment["reason"].partition("*/")[0].strip()
            for kind in _kinds(comment["kinds"], f"{file}:{line}"):
                found.setdefault((file, _line_of_code(code, line)), {})[kind] = reason
    return found


def _kinds(listed: str | None, where: str) -> list[str]:
    kinds = [kind.strip() for kind in (listed or "").split(",")]
    known = (*FAULT_TITLES, *COST_KINDS)
    for kind in kinds:
        if kind not in known:
            wanted = f"smemkit: allow(KIND) reason, with a KIND out of {', '.join(known)}"
            raise ValueError(f"{where}: expected {wanted}; got {kind!r}")
    return kinds


def _line_of_code(code: list[str], line: int) -> int:
    """The first line from here on that has code; this one if there is none."""
    return next((number for number in range(line, len(code) + 1) if code[number - 1].strip()), line)


def accept(launch: LaunchReport, allowances: Allowances) -> LaunchReport:
    """The report of a launch with its accepted faults apart from the others."""
    faults = [replace(fault, allowed=_reason(fault, allowances)) for fault in launch.faults]
    return replace(
        launch,
        faults=tuple(fault for fault in faults if fault.allowed is None),
        allowed=tuple(fault for fault in faults if fault.allowed is not None),
    )


def _reason(fault: Fault, allowances: Allowances) -> str | None:
    """Why a fault is accepted; None if it is not."""
    for location in (fault.file, fault.line), (fault.other_file or fault.file, fault.other_line):
        if fault.kind in (kinds := allowances.get(location, {})):
            return kinds[fault.kind]
    return None
