"""Fixes of races: one barrier for all races that it orders, at a position that all threads reach; otherwise a
statement in two halves, an atomic, or fences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from smemkit.checker.address_fixes import fix_matrix_rows, fix_read_only_load
from smemkit.checker.barriers import (
    Gap,
    common_loops,
    describe,
    gaps_between,
    insertions,
    is_before,
    is_reached,
    passes,
    split_if,
)
from smemkit.checker.bulk_fixes import fix_bulk_copy
from smemkit.checker.cluster_fixes import fix_cluster
from smemkit.checker.copy_fixes import (
    fix_copy,
    fix_mbarrier_wait,
    fix_stage,
    gaps_after_wait,
    is_waited_for,
    needs_a_wait,
    shared_pipeline,
)
from smemkit.checker.early_fixes import fix_early_access
from smemkit.checker.edits import Fix, Insertion, indentation, line_edits
from smemkit.checker.evidence import AccessPair, Evidence, Launch, all_pairs
from smemkit.checker.faults import Fault, between_blocks, race_advice
from smemkit.checker.same_values import reads_same_value, stores_same_value
from smemkit.checker.statements import ASSIGNMENT, Statement
from smemkit.checker.wgmma_fixes import fix_wgmma

__all__ = ["fix_races"]

_BLOCK, _WARP = "__syncthreads();", "__syncwarp();"
_WARP_NOTE = (
    " The threads are of one warp, but warps have not run in lock step since Volta; shuffles do not order memory."
)
_LEGACY = "This code relies on warps running in lock step"
_UPDATE = re.compile(
    r"(?P<element>\*?\s*[A-Za-z_]\w*(?:\s*\[.*\])?)\s*(?:(?P<step>\+\+|--)|(?P<op>[-+])=\s*(?P<value>[^;]+));$",
    re.S,
)
_ATOMIC = re.compile(r"\batomic\w*\s*\(|\.\s*(?:store|load|fetch_\w+|exchange|compare_exchange\w*)\s*\(")
_FENCE = re.compile(r"\b__threadfence\s*\(\s*\)")


def fix_races(launch: Launch, races: Sequence[Evidence]) -> list[Fault]:
    """The races with their fixes. Those that one barrier orders are one fault, with the others folded under it."""
    found: list[Fault] = []
    by_rule: list[Fault] = []
    same: list[Evidence] = []
    rest: list[tuple[Evidence, AccessPair | None]] = []
    options: list[tuple[Evidence, AccessPair, list[tuple[Gap, str]]]] = []
    for evidence in sorted(races, key=lambda race: (race.fault.file, race.fault.line or 0)):
        levels = all_pairs(launch, evidence)
        leaf = levels[0] if levels else None
        special = (
            fix_early_access(launch, evidence)
            or fix_cluster(evidence, leaf)
            or fix_wgmma(evidence)
            or fix_read_only_load(launch, evidence)
            or fix_bulk_copy(evidence, leaf)
            or fix_mbarrier_wait(launch, evidence, leaf)
            or (fix_matrix_rows(evidence) if evidence.fault.hazard == "WAW" else None)
        )
        if special:
            by_rule.append(replace(evidence.fault, fix=special))
            continue
        if leaf and stores_same_value(launch, evidence, leaf):
            same.append(evidence)
            continue
        advised = leaf and (
            _overlap(evidence, leaf) or _is_legacy_warp_code(evidence, leaf) or shared_pipeline(leaf)
        )
        ways = [(pair, _barrier_gaps(launch, evidence, pair)) for pair in ([] if advised else levels)]
        pair, gaps = next((way for way in ways if way[1]), (leaf, []))
        if gaps:
            options.append((evidence, pair, gaps))
        else:
            rest.append((evidence, leaf))
    harmless = [option for option in options if reads_same_value(launch, *option[:2], same)]
    same += [option[0] for option in harmless]
    options = [option for option in options if option not in harmless]
    while options:
        fault, options = _cover(options)
        found.append(fault)
    others = [replace(evidence.fault, fix=_other_fix(launch, evidence, pair)) for evidence, pair in rest]
    warnings = [replace(other.fault, severity="warning", fix=Fix(_SAME_VALUE)) for other in same]
    return found + _fold_same_edits(by_rule) + _fold_same_edits(others) + warnings


_SAME_VALUE = "Let one thread store the value (`if (threadIdx.x == 0)`), or accept it: all store the same."


def _fold_same_edits(faults: list[Fault]) -> list[Fault]:
    """Folds faults whose fixes are the same edits under the first of them."""
    kept: list[Fault] = []
    for fault in faults:
        same = next((earlier for earlier in kept if _foldable(fault) and earlier.fix == fault.fix), None)
        if same is None:
            kept.append(fault)
        else:
            kept[kept.index(same)] = replace(same, knock_on=(*same.knock_on, fault))
    return kept


def _foldable(fault: Fault) -> bool:
    return bool(fault.fix.edits) or fault.fix.startswith(_LEGACY)


# ---- barriers ----


def _barrier_gaps(launch: Launch, evidence: Evidence, pair: AccessPair) -> list[tuple[Gap, str]]:
    """The gaps where a barrier would order a race, with the barrier; those preferred first."""
    if between_blocks(evidence.fault) or needs_a_wait(evidence, pair):
        return []
    one_pass = evidence.fault.hazard != "RAW" or _as_update(pair.text(pair.first), evidence.name)
    if pair.first is pair.second and pair.is_leaf and one_pass:
        return []  # a barrier between passes of the statement would not order it
    one_warp = launch.threads <= 32 and evidence.fault.warp_synchronous
    for barrier, by_warps in ((_BLOCK, False), (_WARP, True)):
        allowed = evidence.fault.warp_synchronous if by_warps else not one_warp
        if not allowed or not pair.called_by_all(by_warps=by_warps):
            continue
        for gaps in _ways(evidence, pair):
            reached = [gap for gap in gaps if is_reached(pair.guards, gap, by_warps=by_warps)]
            if reached:
                return [(gap, barrier) for gap in _between_passes_too(evidence, pair, reached)]
    return []


def _ways(evidence: Evidence, pair: AccessPair) -> list[list[Gap]]:
    """The gaps on each path that may lead from the first access to the second: within one iteration of all loops,
    or in the next iteration of one of them."""
    first, second = pair.first, pair.second
    if is_waited_for(evidence):
        return [gaps_after_wait(pair)]
    next_passes = [passes(first, second, loop) for loop in common_loops(first, second)]
    if first is second or not is_before(first, second):
        return next_passes
    gaps = gaps_between(first, second)
    if "memcpy_async" in pair.text(first):  # the barrier comes after the wait for the copy
        gaps.reverse()
    if next_passes and _is_double_buffer(evidence, pair):
        return [next_passes[0] + gaps]
    return [gaps]


def _between_passes_too(evidence: Evidence, pair: AccessPair, gaps: list[Gap]) -> list[Gap]:
    """Those gaps that also order the iterations of a step like `s[t] += s[t + stride]` in a loop without barriers.
    Its iterations race as well, which shows only once the first race is fixed."""
    for step in dict.fromkeys((pair.second, pair.first)):
        if len(re.findall(rf"\b{evidence.name}\s*\[", pair.text(step))) < 2 or not evidence.name:
            continue
        if not (_stored_name(pair, step) == evidence.name or "(" in pair.text(step)):
            continue
        for loop in common_loops(step, step):
            if "sync" not in pair.source.code[loop.start : loop.end]:
                both = [gap for gap in passes(step, step, loop) if gap in gaps]
                if both:
                    return both
    return gaps


def _is_double_buffer(evidence: Evidence, pair: AccessPair) -> bool:
    """Whether the two accesses use different slots of an array of a few buffers."""
    if evidence.raw["rank"] < 2 or not 1 < evidence.raw["dims"][0] <= 4:
        return False
    slots = [
        re.findall(rf"\b{evidence.name}\s*\[([^\[\]]*)\]", pair.text(statement))
        for statement in (pair.first, pair.second)
    ]
    return bool(slots[0] and slots[1] and not set(slots[0]) & set(slots[1]))


def _cover(options: list[tuple[Evidence, AccessPair, list[tuple[Gap, str]]]]):
    """The barrier that orders the most races, as the fault of the first of them; and the other races."""

    def key(gap: Gap, barrier: str) -> tuple[int, int, str]:
        return id(gap.sequence), gap.index, barrier

    ranks: dict[tuple[int, int, str], list[int]] = {}  # for each gap, how much the races prefer it
    found = {}
    for _, _, gaps in options:
        keys = [key(*gap) for gap in gaps]
        found |= dict(zip(keys, gaps, strict=True))
        for name in dict.fromkeys(keys):
            ranks.setdefault(name, []).append(keys.index(name))
    gap, barrier = found[min(ranks, key=lambda name: (-len(ranks[name]), sum(ranks[name])))]
    chosen = [option for option in options if key(gap, barrier) in {key(*other) for other in option[2]}]
    chosen.sort(key=lambda option: (option[0].fault.warp_synchronous, option[0].fault.line or 0))
    evidence, pair, _ = chosen[0]
    knock_on = tuple(evidence.fault for evidence, _, _ in chosen[1:])
    fault = replace(evidence.fault, fix=_barrier_fix(evidence, pair, gap, barrier, chosen), knock_on=knock_on)
    return fault, [option for option in options if option not in chosen]


def _barrier_fix(evidence: Evidence, pair: AccessPair, gap: Gap, barrier: str, chosen) -> Fix:
    accesses = [access for _, other, _ in chosen for access in (other.first, other.second)]
    where = describe(pair.source, gap, *accesses)
    narrow = _narrow_barrier(pair, gap) if barrier == _BLOCK else None
    why = {
        "RAW": "so that everything is written before it is read",
        "WAR": "so that all have read before anyone writes again",
        "WAW": "so that the earlier values are written first",
    }[evidence.fault.hazard]
    if narrow:
        line = pair.source.line(narrow.start)
        old = pair.text(narrow).rstrip(";")
        text = f"Make {old} at line {line} __syncthreads(): the threads are of several warps."
        changes = [(narrow.start, narrow.end, barrier)]
    else:
        text = f"Put {barrier[:-1]} {where}, {why}."
        changes = insertions(pair.source, gap, barrier)
    if all(evidence.fault.warp_synchronous for evidence, _, _ in chosen):
        text += _WARP_NOTE
    return Fix(text, line_edits(pair.file, pair.source, changes))


def _narrow_barrier(pair: AccessPair, gap: Gap) -> Statement | None:
    """A __syncwarp() beside a gap, which a barrier of the block replaces."""
    for neighbour in (gap.before, gap.after):
        if neighbour and re.fullmatch(
            r"__syncwarp\s*\([^;]*\)\s*;", pair.source.code[neighbour.start : neighbour.end]
        ):
            return neighbour
    return None


# ---- other fixes ----


def _stored_name(pair: AccessPair, statement: Statement) -> str:
    found = ASSIGNMENT.fullmatch(pair.text(statement).strip())
    return re.match(r"\*?\s*(\w+)", found["element"])[1] if found else ""


def _overlap(evidence: Evidence, pair: AccessPair) -> bool:
    """Whether two stores to dynamic shared memory overlap although they go to arrays of different names."""
    names = {_stored_name(pair, pair.first), _stored_name(pair, pair.second)}
    raw = evidence.raw
    dynamic = raw["space"] == "shared" and raw["rank"] == 1 and raw["dims"][0] == 0
    return dynamic and evidence.fault.hazard == "WAW" and len(names) == 2 and "" not in names and pair.is_leaf


def _is_legacy_warp_code(evidence: Evidence, pair: AccessPair) -> bool:
    """Whether lanes of a warp exchange values through a volatile pointer."""
    parameters = pair.source.code[slice(*pair.function.parameters)]
    local = pair.source.code[pair.function.body.start : pair.first.start]
    return evidence.fault.warp_synchronous and bool(re.search(r"\bvolatile\b[^;,)]*\*", parameters + local))


def _other_fix(launch: Launch, evidence: Evidence, pair: AccessPair | None) -> Fix:
    """The fix of a race that no barrier can order at a position that all threads reach."""
    if pipe := pair and shared_pipeline(pair):
        return fix_stage(evidence, pipe)
    if needs_a_wait(evidence, pair):
        return fix_copy(evidence, pair)
    if pair and _overlap(evidence, pair):
        return Fix(
            "The two lines store to different arrays that overlap: begin the second where the first "
            "ends; all `extern "
            "__shared__` arrays begin at the same address, so declare one and divide it."
        )
    if pair and _is_legacy_warp_code(evidence, pair):
        return Fix(
            f"{_LEGACY}: in each step read into a register, __syncwarp(), write, __syncwarp(); or reduce with "
            f"__shfl_down_sync.{_WARP_NOTE}"
        )
    if pair:
        update = _fix_update(evidence, pair)
        fix = update or (
            _fix_between_blocks(evidence, pair)
            if between_blocks(evidence.fault)
            else _fix_in_halves(launch, evidence, pair)
            or _fix_split_if(evidence, pair)
            or _fix_with_atomic(evidence, pair)
        )
        if fix:
            return fix
    return Fix(_branch_advice(evidence.fault) if pair else race_advice(evidence.fault))


def _branch_advice(fault: Fault) -> str:
    """Advice where some threads do not reach any possible position of a barrier."""
    if between_blocks(fault) or (fault.hazard == "WAW" and fault.line == fault.other_line):
        return race_advice(fault)
    return (
        "A barrier between the two lines would be in a branch or loop that some threads do not enter, or leave "
        "early: end the branch before the barrier and begin it again after it, or let all threads run the loop "
        "equally often; or use atomics for both."
    )


def _as_update(text: str, name: str) -> re.Match[str] | None:
    """A statement that updates one element without reading another of the same array."""
    found = _UPDATE.fullmatch(text.strip())
    if not found or (found["value"] and name and re.search(rf"\b{name}\b", found["value"])):
        return None
    return found


def _fix_update(evidence: Evidence, pair: AccessPair) -> Fix | None:
    """`x += v` by several threads: an atomic."""
    found = _as_update(pair.text(pair.first), evidence.name) if pair.first is pair.second else None
    if not found or _ATOMIC.search(pair.source.code[pair.function.body.start : pair.first.start]):
        return None  # inside a lock, the lock lacks its fences
    value = found["value"] or "1"
    negative = found["op"] == "-" or found["step"] == "--"
    element = found["element"].strip()
    address = element[1:].strip() if element.startswith("*") else f"&{element}"
    text = (
        f"atomicAdd({address}, {f'-({value})' if negative and found['value'] else '-1' if negative else value});"
    )
    change = (pair.first.start, pair.first.end, text)
    line = pair.source.line(pair.first.start)
    return Fix(
        f"Several threads update one element at line {line}, and updates get lost: use {text[:-1]}.",
        line_edits(pair.file, pair.source, [change]),
    )


def _element_type(pair: AccessPair, name: str) -> str:
    """The declared type of an array's elements; "" if it is not found."""
    text = pair.source.code
    for before in (
        rf"__shared__\s+(?:__align__\s*\([^)]*\)\s*|volatile\s+)*([\w:]+(?:\s+[\w:]+)*?)\s+(?:\w+\s*(?:\[[^\]]*\]\s*)*,\s*)*{name}\s*[\[;,]",
        rf"(?:const\s+|volatile\s+)*\b((?:unsigned\s+)?[\w:]+)\s*\*\s*(?:__restrict__\s*)?{name}\b",
    ):
        found = re.search(before, text)
        if found:
            return re.sub(r"\b(?:const|volatile)\s+", "", found[1])
    return ""


def _unused_name(pair: AccessPair, wanted: str = "next") -> str:
    words = set(re.findall(r"\w+", pair.source.code))
    return next(name for name in (wanted, *(f"{wanted}{number}" for number in range(2, 99))) if name not in words)


def _fix_in_halves(launch: Launch, evidence: Evidence, pair: AccessPair) -> Fix | None:
    """One statement that reads and writes: read into a register, then a barrier, then write."""
    if pair.first is not pair.second or not pair.is_leaf or evidence.fault.hazard != "WAR":
        return None
    statement = pair.first
    found = ASSIGNMENT.fullmatch(pair.text(statement).strip())
    element = re.match(r"\*?\s*(\w+)", found["element"])[1] if found else ""
    type_ = _element_type(pair, element) if element else ""
    if not found or not type_:
        return None
    outer = _guarded_whole(pair, statement)
    for barrier, by_warps in ((_BLOCK, False), (_WARP, True)):
        if by_warps and not evidence.fault.warp_synchronous:
            continue
        for around in (None, outer):
            near = around or statement
            reached = is_reached(pair.guards, Gap(near.within, near.index), by_warps=by_warps)
            if reached and pair.called_by_all(by_warps=by_warps):
                barrier = _WARP if launch.threads <= 32 else barrier
                return _halves(evidence, pair, found, type_, around, barrier)
    return None


def _guarded_whole(pair: AccessPair, statement: Statement) -> Statement | None:
    """The `if` without else whose only statement this is."""
    owner = statement.within.owner
    only = owner and owner.kind == "if" and len(owner.parts) == 1 and len(statement.within.statements) == 1
    return owner if only else None


def _halves(evidence, pair: AccessPair, found: re.Match[str], type_: str, around, barrier: str) -> Fix:
    statement, source = pair.first, pair.source
    name, element = _unused_name(pair), found["element"].strip()
    value = f"{element} {found['op']} ({found['value']})" if found["op"] else found["value"]
    whole = around or statement
    indent = indentation(source, whole.start)
    if around:
        head = source.text[slice(*around.head)]
        lines = [f"{type_} {name} = {{}};", f"if {head}", f"    {name} = {value};", barrier, f"if {head}"]
        lines.append(f"    {element} = {name};")
    else:
        lines = [f"const {type_} {name} = {value};", barrier, f"{element} = {name};"]
    again = common_loops(statement, statement) or pair.callers or not pair.is_leaf
    if again and not _ends_in_barrier(pair, whole):
        lines.append(barrier)
    if not whole.within.braced or not around:
        lines = ["{", *(f"    {line}" for line in lines), "}"]
    line = source.line(statement.start)
    text = (
        f"Line {line} reads what other threads write in the same statement: read into a register, put "
        f"{barrier[:-1]}{', outside the `if`' if around else ''}, then write."
    )
    if evidence.fault.warp_synchronous:
        text += _WARP_NOTE
    return Fix(text, line_edits(pair.file, source, [(whole.start, whole.end, f"\n{indent}".join(lines))]))


def _ends_in_barrier(pair: AccessPair, statement: Statement) -> bool:
    """Whether a barrier follows a statement in its sequence."""
    rest = statement.within.statements[statement.index + 1 :]
    return any(
        re.match(r"__sync(?:threads|warp)", pair.source.code[statement.start : statement.end])
        for statement in rest
    )


def _fix_split_if(evidence: Evidence, pair: AccessPair) -> Fix | None:
    """Both accesses are inside an `if` that some threads do not enter: end it before the barrier."""
    if not pair.called_by_all() or pair.first is pair.second:
        return None
    for gap in gaps_between(pair.first, pair.second):
        owner = gap.sequence.owner
        if not owner or not is_reached(pair.guards, Gap(owner.within, owner.index)):
            continue
        changes = split_if(pair.guards, gap, _BLOCK)
        if changes:
            where = f"after line {pair.source.last_line(gap.before)}"
            text = (
                f"End the `if` of line {pair.source.line(owner.start)} {where}, put __syncthreads() "
                "there, outside "
                "of it, and begin it again: some threads do not enter it."
            )
            return Fix(text, line_edits(pair.file, pair.source, changes))
    return None


def _fix_with_atomic(evidence: Evidence, pair: AccessPair) -> Fix | None:
    """One of the two accesses is atomic, and no barrier can be put between them: make the other one atomic too."""
    raw = evidence.raw
    if "atomic" not in (raw["access"], raw["other_access"]) or not evidence.name:
        return None
    plain, kind = (pair.first, raw["other_access"]) if raw["access"] == "atomic" else (pair.second, raw["access"])
    found = ASSIGNMENT.fullmatch(pair.text(plain).strip())
    if kind != "store" or not found or found["op"]:
        return None
    element = found["element"].strip()
    address = element[1:].strip() if element.startswith("*") else f"&{element}"
    text = f"atomicExch({address}, {found['value']});"
    line = pair.source.line(plain.start)
    return Fix(
        f"Line {line} stores what others update atomically: use {text[:-1]}.",
        line_edits(pair.file, pair.source, [(plain.start, plain.end, text)]),
    )


# ---- between blocks ----


def _fix_between_blocks(evidence: Evidence, pair: AccessPair) -> Fix | None:
    """Blocks that communicate through an atomic lack a fence before it, or after it."""
    code, function = pair.source.code, pair.function
    before = _ATOMIC.search(code, pair.first.end, function.body.end)
    after = _ATOMIC.search(code, function.body.start, pair.second.start)
    plain = "atomic" not in (evidence.raw["access"], evidence.raw["other_access"])
    if not (before and after and plain) or not pair.is_leaf:
        return None
    if pair.first is pair.second:
        return _fix_critical_section(pair, before, after)
    if evidence.fault.hazard != "RAW":
        return None
    publisher = function.statement_at(before.start())
    owner = publisher.within.owner
    if _FENCE.search(code, pair.first.end, before.start()) and owner and owner not in pair.first.ancestors():
        return _barrier_before_publishing(pair, owner)
    changes = _fence(pair, Gap(pair.first.within, pair.first.index + 1), pair.first.end, before.start())
    reader = _outermost_after(pair.second, after.end())
    changes += _fence(pair, Gap(reader.within, reader.index), after.end(), reader.start)
    if not changes:
        return None
    lines = [pair.source.line(statement.start) for statement in (pair.first, reader)]
    return Fix(
        f"Put __threadfence() after line {lines[0]}, before the atomic that announces it, and "
        "__threadfence() before "
        f"line {lines[1]}, after the atomic that sees it; or use cuda::atomic_ref with release and acquire.",
        line_edits(pair.file, pair.source, changes),
    )


def _outermost_after(statement: Statement, position: int) -> Statement:
    """The outermost loop around a statement that begins after a position, or the statement itself."""
    around = [
        ancestor for ancestor in statement.ancestors() if ancestor.start >= position and ancestor.within.braced
    ]
    return around[-1] if around else statement


def _fence(pair: AccessPair, gap: Gap, start: int, end: int) -> list[Insertion]:
    """The changes that put a fence into a gap; none if one is between two positions, a wider scope for one of
    the block."""
    code = pair.source.code
    narrow = re.compile(r"__threadfence_block\s*\(\s*\)").search(code, start, end)
    if narrow:
        return [(narrow.start(), narrow.end(), "__threadfence()")]
    return [] if _FENCE.search(code, start, end) else insertions(pair.source, gap, "__threadfence();")


def _fix_critical_section(pair: AccessPair, before: re.Match[str], after: re.Match[str]) -> Fix:
    """A statement between the atomics of a lock."""
    statement, line = pair.first, pair.source.line(pair.first.start)
    changes = _fence(pair, Gap(statement.within, statement.index), after.end(), statement.start)
    changes += _fence(pair, Gap(statement.within, statement.index + 1), statement.end, before.start())
    return Fix(
        f"Put __threadfence() before line {line}, after the lock is taken, and after it, before the "
        "lock is released: "
        "without fences the next owner need not see what the last one wrote.",
        line_edits(pair.file, pair.source, changes),
    )


def _barrier_before_publishing(pair: AccessPair, owner: Statement) -> Fix | None:
    """One thread publishes for its block, and does not wait for the others."""
    gap = Gap(owner.within, owner.index)
    if not is_reached(pair.guards, gap) or not pair.called_by_all():
        return None
    line = pair.source.line(owner.start)
    return Fix(
        f"Put __syncthreads() {describe(pair.source, gap)}, so that the whole block has written "
        "before the thread of "
        f"line {line} announces it: its fence orders only what it has seen.",
        line_edits(pair.file, pair.source, insertions(pair.source, gap, _BLOCK)),
    )
