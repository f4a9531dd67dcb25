"""Where a barrier orders two accesses: the gaps between statements that lie on every path from one to the other,
and that all threads of the block reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from smemkit.checker.edits import Insertion, indentation
from smemkit.checker.statements import LOOPS, Sequence, SourceText, Statement
from smemkit.checker.uniformity import Guards

__all__ = [
    "Gap",
    "common_loops",
    "describe",
    "gaps_between",
    "insertions",
    "is_before",
    "is_reached",
    "passes",
    "split_if",
]

_LEAVES = re.compile(r"\b(return|break|continue)\b")


@dataclass(frozen=True)
class Gap:
    """The gap before statement `index` of a sequence."""

    sequence: Sequence
    index: int

    @property
    def before(self) -> Statement | None:
        """The statement before it."""
        return self.sequence.statements[self.index - 1] if self.index else None

    @property
    def after(self) -> Statement | None:
        """The statement after it."""
        return self.sequence.statements[self.index] if self.index < len(self.sequence.statements) else None

    @property
    def position(self) -> int:
        """Its position in the source."""
        return self.before.end if self.before else self.sequence.start


def _positions(statement: Statement) -> list[tuple[Sequence, int]]:
    """The sequences around a statement, innermost first, and its index in each."""
    return [(ancestor.within, ancestor.index) for ancestor in statement.ancestors()]


def common_loops(first: Statement, second: Statement) -> list[Statement]:
    """The loops around both statements, innermost first."""
    around = list(second.ancestors())
    return [ancestor for ancestor in first.ancestors() if ancestor.kind in LOOPS and ancestor in around]


def passes(first: Statement, second: Statement, loop: Statement) -> list[Gap]:
    """The gaps on every path from one statement to another in the next iteration of a loop around both."""
    body = loop.parts[0]
    return [*_gaps_after(first, body, False), *_gaps_before(second, body, False)]


def is_before(first: Statement, second: Statement) -> bool:
    """Whether a statement comes before another in the innermost sequence that contains both."""
    others = {id(sequence): index for sequence, index in _positions(second)}
    return next(index < others[id(sequence)] for sequence, index in _positions(first) if id(sequence) in others)


def gaps_between(first: Statement, second: Statement) -> list[Gap]:
    """The gaps on every path from a statement to a later one, the preferred ones first: outer ones, soon after the
    first statement."""
    ways, others = _positions(first), {id(sequence): index for sequence, index in _positions(second)}
    sequence, here = next(position for position in ways if id(position[0]) in others)
    gaps = [Gap(sequence, index) for index in range(here + 1, others[id(sequence)] + 1)]
    return [*gaps, *_gaps_after(first, sequence, True), *_gaps_before(second, sequence, True)] if gaps else []


def _inner(statement: Statement, limit: Sequence, only_inside: bool) -> list[tuple[Sequence, int]]:
    """The sequences around a statement up to `limit`, outermost first."""
    found = []
    for sequence, index in _positions(statement):
        if sequence is limit and only_inside:
            break
        found.append((sequence, index))
        if sequence is limit:
            break
    return found[::-1]


def _gaps_after(statement: Statement, limit: Sequence, only_inside: bool) -> Iterator[Gap]:
    for sequence, index in _inner(statement, limit, only_inside):
        yield from (Gap(sequence, at) for at in range(index + 1, len(sequence.statements) + 1))


def _gaps_before(statement: Statement, limit: Sequence, only_inside: bool) -> Iterator[Gap]:
    for sequence, index in _inner(statement, limit, only_inside):
        yield from (Gap(sequence, at) for at in range(index, -1, -1))


# ---- who reaches a gap ----


def is_reached(guards: Guards, gap: Gap, *, by_warps: bool = False) -> bool:
    """Whether all threads of the block reach a gap equally often; `by_warps`: all lanes of each warp that does."""
    owner = gap.sequence.owner
    if owner and owner.kind == "switch":
        return False
    around = list(owner.ancestors()) if owner else []
    enter = guards.fills_warps if by_warps else guards.is_uniform
    return all(enter(loop) for loop in around) and not any(_early_exits(guards, gap, around, enter))


def _early_exits(guards: Guards, gap: Gap, around: list[Statement], enter) -> Iterator[Statement]:
    """The statements by which some threads leave before the gap, or the loop around it."""
    for statement in guards.function.walk():
        found = statement.kind == "simple" and _LEAVES.search(guards.source.code[statement.start : statement.end])
        if not found:
            continue
        owners = list(statement.ancestors())[1:]
        loop = next((owner for owner in owners if owner.kind in (*LOOPS, "switch")), None)
        if found[1] == "return":
            matters = statement.start < gap.position or any(
                loop.kind in LOOPS and loop in owners for loop in around
            )
        else:
            matters = loop in around
        if matters and not all(enter(owner) for owner in owners):
            yield statement


# ---- words and edits ----


def describe(source: SourceText, gap: Gap, *accesses: Statement) -> str:
    """A gap as an editor would name it: "after line 9, at the end of the loop body, outside the `if`"."""
    owner = gap.sequence.owner
    words = []
    if gap.before:
        words.append(f"after line {source.last_line(gap.before)}")
    elif gap.after:
        words.append(f"before line {source.line(gap.after.start)}")
    if owner and owner.kind in LOOPS and not gap.after:
        words.append("at the end of the loop body")
    elif owner and owner.kind in LOOPS and not gap.before:
        words.append("at the start of the loop body")
    elif gap.after and gap.after.kind in LOOPS:
        words.append(f"before the loop at line {source.line(gap.after.start)}")
    left = list(dict.fromkeys(_left(gap, accesses)))
    before_loop = gap.after and gap.after.kind in LOOPS
    words += ["outside the `if`"] if not before_loop and any(owner.kind == "if" for owner in left) else []
    loops = [owner for owner in left if owner.kind in LOOPS and owner is not gap.after]
    words += [f"outside the loop of line {source.line(loops[0].start)}"] if loops else []
    return ", ".join(words)


def _left(gap: Gap, accesses: tuple[Statement, ...]) -> Iterator[Statement]:
    """The conditionals and loops around the accesses that end before the gap, or begin after it."""
    for access in accesses:
        for ancestor in access.ancestors():
            if ancestor.within is gap.sequence:
                if ancestor is not access or ancestor.kind != "simple":
                    yield ancestor
                break
            if ancestor is not access or ancestor.kind != "simple":
                yield ancestor


def insertions(source: SourceText, gap: Gap, barrier: str) -> list[Insertion]:
    """The changes that put a statement into a gap, with braces around it where there are none."""
    sequence = gap.sequence
    if sequence.braced:
        near = gap.before or gap.after
        indent = indentation(source, near.start) if near else indentation(source, sequence.start) + "    "
        return [(gap.position, gap.position, f"\n{indent}{barrier}")]
    body = sequence.statements[0]
    outer = indentation(source, sequence.owner.start)
    opened = source.code[: sequence.start].rstrip().__len__()
    closing = f"\n{outer}}}"
    if gap.index:
        return [(opened, opened, " {"), (body.end, body.end, f"\n{outer}    {barrier}{closing}")]
    return [(opened, opened, f" {{\n{outer}    {barrier}"), (body.end, body.end, closing)]


_DECLARATION = re.compile(
    r"\b(?:const\s+|unsigned\s+|volatile\s+)*[A-Za-z_][\w:]*(?:<[^;]*>)?[\s*&]+([A-Za-z_]\w*)\s*(?:[=;,({\[])"
)


def split_if(guards: Guards, gap: Gap, barrier: str) -> list[Insertion] | None:
    """The changes that end an `if` at a gap, put a barrier there, and open the `if` again; None where what the
    first half declares or changes is used in the second."""
    source, owner = guards.source, gap.sequence.owner
    if not owner or owner.kind != "if" or len(owner.parts) > 1 or not gap.sequence.braced:
        return None
    if not gap.before or not gap.after:
        return None
    first = source.code[gap.sequence.start : gap.position]
    second = source.code[gap.position : gap.sequence.end]
    head = source.code[slice(*owner.head)]
    declared = set(_DECLARATION.findall(first))
    changed = set(re.findall(r"\b([A-Za-z_]\w*)\s*(?:\[[^;]*?\]\s*)?(?:[-+*/%&|^]|<<|>>)?=(?!=)", first))
    if declared & set(re.findall(r"\w+", second)) or changed & set(re.findall(r"\w+", head)) or "(" in head[1:-1]:
        return None
    indent = indentation(source, owner.start)
    text = f"\n{indent}}}\n{indent}{barrier}\n{indent}if {source.text[slice(*owner.head)]} {{"
    return [(gap.position, gap.position, text)]
