"""What a fix is derived from: a fault with the extension's data, and its statements in the source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from smemkit.checker.barriers import common_loops
from smemkit.checker.faults import Fault
from smemkit.checker.statements import Function, SourceText, Statement
from smemkit.checker.uniformity import Guards

__all__ = ["AccessPair", "Evidence", "Frame", "Launch"]

Frame = tuple[str, int]  # file and line


@dataclass(frozen=True)
class Evidence:
    """A fault, the extension's data about it, and the calls that led to its two lines, innermost first."""

    fault: Fault
    raw: Mapping[str, Any]
    frames: tuple[Frame, ...]
    other_frames: tuple[Frame, ...] = ()

    @property
    def name(self) -> str:
        """The variable without its subscripts."""
        return re.match(r"\w*", self.fault.variable)[0]


@dataclass
class Launch:
    """The launch and its sources, parsed once."""

    texts: Mapping[str, str]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    scalars: Mapping[str, int] = field(default_factory=dict)
    _parsed: dict[str, SourceText] = field(default_factory=dict)
    _guards: dict[int, Guards] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]

    def source(self, file: str) -> SourceText | None:
        """A parsed file, or None if its text is not known."""
        if file not in self._parsed and self.texts.get(file):
            self._parsed[file] = SourceText(self.texts[file])
        return self._parsed.get(file)

    def guards(self, source: SourceText, function: Function) -> Guards:
        """What is known about a function's conditions."""
        return self._guards.setdefault(id(function), Guards(source, function, self.block))


@dataclass(frozen=True)
class AccessPair:
    """The statements of a fault's two accesses, in the innermost function on both call stacks."""

    file: str
    source: SourceText
    function: Function
    guards: Guards
    first: Statement  # the earlier access, or the call that led to it
    second: Statement
    callers: tuple[tuple[Guards, Statement], ...]
    is_leaf: bool  # both accesses are in this function

    def called_by_all(self, *, by_warps: bool = False) -> bool:
        """Whether all threads of the block, or all lanes of a warp, call the function."""
        return all(
            (guards.fills_warps if by_warps else guards.is_uniform)(ancestor)
            for guards, call in self.callers
            for ancestor in call.ancestors()
        )

    def text(self, statement: Statement) -> str:
        """A statement as it is written."""
        return self.source.text[statement.start : statement.end]


def find_pair(launch: Launch, evidence: Evidence) -> AccessPair | None:
    """The statements of the two accesses of a race; None if they are not in one function of a known file."""
    return next(iter(all_pairs(launch, evidence)), None)


def all_pairs(launch: Launch, evidence: Evidence) -> list[AccessPair]:
    """The access pairs in each function on both call stacks, innermost first."""
    here, there = evidence.frames[::-1], evidence.other_frames[::-1]
    level = 0
    while level + 1 < min(len(here), len(there)) and here[level] == there[level]:
        level += 1
    found = (_pair_at(launch, evidence, number) for number in range(level, -1, -1))
    return [pair for pair in found if pair]


def _pair_at(launch: Launch, evidence: Evidence, level: int) -> AccessPair | None:
    """The statements of the two accesses in the function that is `level` calls below the kernel."""
    here, there = evidence.frames[::-1], evidence.other_frames[::-1]
    if level >= min(len(here), len(there)) or here[level][0] != there[level][0]:
        return None
    file = here[level][0]
    source = launch.source(file)
    function = source.function_at(here[level][1]) if source else None
    if function is None or source.function_at(there[level][1]) is not function:
        return None
    leaf = level + 1 == len(here) == len(there)
    name = evidence.name if leaf else ""
    raw = evidence.raw
    second = statement_on(source, function, here[level][1], name, raw["access"])
    first = statement_on(source, function, there[level][1], name, raw["other_access"])
    if first is None or second is None:
        return None
    if level == 0 and first.start > second.start and not common_loops(first, second):
        first, second = second, first  # branches have shifted the order in which the two were counted
    callers = _callers(launch, here[:level])
    return AccessPair(file, source, function, launch.guards(source, function), first, second, callers, leaf)


def _callers(launch: Launch, frames: tuple[Frame, ...]) -> tuple[tuple[Guards, Statement], ...]:
    """The calls by which the common function was reached."""
    calls = []
    for file, line in frames:
        source = launch.source(file)
        function = source.function_at(line) if source else None
        statement = statement_on(source, function, line) if function else None
        if statement:
            calls.append((launch.guards(source, function), statement))
    return tuple(calls)


def statement_on(
    source: SourceText, function: Function, line: int, name: str = "", access: str = ""
) -> Statement | None:
    """The statement on a line that makes an access to a variable; without a name, the first one."""
    start, end = source.extent(line)
    code = source.code[start:end]
    found = [match.start() for match in re.finditer(rf"\b{re.escape(name)}\b", code)] if name else []
    stores = [
        at for at in found if re.match(r"\w+\s*(?:\[.*?\]\s*)*(?:\.\w+\s*)*(?:[-+*/%&|^]|<<|>>)?=(?!=)", code[at:])
    ]
    if access == "store" and stores:
        found = stores
    elif access == "load" and len(found) > len(stores):
        found = [at for at in found if at not in stores]
    at = found[0] if found else len(code) - len(code.lstrip())
    return function.statement_at(start + at)
