"""The fix of each fault, from the launch and the source; and what to do about faults that are not races."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from smemkit.checker.address_fixes import fix_matrix_rows, fix_misaligned
from smemkit.checker.barrier_texts import CAUSE_TEXTS, MISUSE_TEXTS, MOVE_TEXT
from smemkit.checker.barriers import Gap, describe, insertions, is_reached, split_if
from smemkit.checker.copy_fixes import waited_for_wrong_parity
from smemkit.checker.edits import Fix, Insertion, indentation, line_edits
from smemkit.checker.evidence import Evidence, Launch, statement_on
from smemkit.checker.faults import Fault
from smemkit.checker.race_fixes import fix_races
from smemkit.checker.statements import LOOPS, Function, SourceText, Statement

__all__ = ["MAX_SHARED_BYTES", "fixed"]

MAX_SHARED_BYTES = 227 * 1024
_BARRIER = "__syncthreads();"


def fixed(launch: Launch, evidence: Sequence[Evidence]) -> list[Fault]:
    """The faults with their fixes; those with the same cause are folded under the first."""
    races = fix_races(launch, [item for item in evidence if item.fault.kind == "race"])
    found = []
    for item in evidence:
        if item.fault.kind == "barrier":
            item = _with_cause(launch, item)
        if item.fault.kind in _FIXES:
            found.append(replace(item.fault, fix=_FIXES[item.fault.kind](launch, item)))
        elif item.fault.kind != "race":
            found.append(item.fault)
    return _fold_wrong_parity(_fold_double_inits(races + _fold_poisoned(_fold_sizes(found))))


def _fold(faults: list[Fault], root_of: Callable[[Fault], Fault | None]) -> list[Fault]:
    """Folds faults under others that have the same cause."""
    under: dict[int, list[Fault]] = {}
    for fault in faults:
        root = root_of(fault)
        if root is not None:
            under.setdefault(id(root), []).append(fault)
    folded = {id(fault) for below in under.values() for fault in below}
    return [
        replace(fault, knock_on=(*fault.knock_on, *under.get(id(fault), ())))
        for fault in faults
        if id(fault) not in folded
    ]


def _fold_poisoned(faults: list[Fault]) -> list[Fault]:
    """Endless waits of threads that continued with a value read out of bounds: the read is the cause."""
    reads = {(fault.file, fault.line): fault for fault in reversed(faults) if fault.kind == "out_of_bounds"}
    return _fold(
        faults, lambda fault: reads.get((fault.other_file, fault.other_line)) if fault.kind == "hang" else None
    )


def _fold_wrong_parity(faults: list[Fault]) -> list[Fault]:
    """Endless waits for an mbarrier at the line of a wait that another time returned at once."""
    races = {waited_for_wrong_parity(fault.fix): fault for fault in reversed(faults) if fault.kind == "race"}
    races.pop(None, None)
    return _fold(faults, lambda fault: races.get(fault.line) if fault.kind == "hang" else None)


def _fold_double_inits(faults: list[Fault]) -> list[Fault]:
    """Races between two inits of an mbarrier without inval."""
    inits = {
        _line_pair(fault): fault
        for fault in reversed(faults)
        if fault.kind == "barrier" and "has initialised" in fault.message
    }
    return _fold(faults, lambda fault: inits.get(_line_pair(fault)) if fault.kind == "race" else None)


def _line_pair(fault: Fault) -> frozenset[tuple[str, int | None]]:
    return frozenset({(fault.file, fault.line), (fault.other_file, fault.other_line)})


def _fold_sizes(faults: list[Fault]) -> list[Fault]:
    """Folds the faults that more dynamic shared memory fixes into one."""
    small = [fault for fault in faults if fault.fix and fault.fix.shared_bytes]
    if len(small) < 2:
        return faults
    first = max(small, key=lambda fault: fault.fix.shared_bytes)
    root = replace(small[0], fix=first.fix, knock_on=tuple(small[1:]))
    return [root, *(fault for fault in faults if fault not in small)]


def _with_cause(launch: Launch, evidence: Evidence) -> Evidence:
    """A barrier fault with the reason why threads do not arrive. If some wait in a warp's collective and others at
    a barrier, the fault's line is that of the collective."""
    fault = evidence.fault
    waits = re.search(r"threads wait at ([^,]*):(\d+) for lanes of mask", evidence.raw["message"])
    if waits and fault.other_line == int(waits[2]) and fault.line != fault.other_line:
        source = launch.source(fault.other_file)
        text = source.text[slice(*source.extent(fault.other_line))].strip() if source else ""
        swapped = {"line": fault.other_line, "other_line": fault.line, "text": text}
        swapped |= {"file": fault.other_file, "other_file": fault.file}
        evidence = replace(
            evidence,
            fault=replace(fault, **swapped),
            frames=evidence.other_frames,
            other_frames=evidence.frames,
        )
    context = _context(launch, evidence)
    guards = launch.guards(*context[:2]) if context else None
    return replace(evidence, fault=replace(evidence.fault, cause=_cause(evidence.raw["message"], context, guards)))


def _context(launch: Launch, evidence: Evidence) -> tuple[SourceText, Function, Statement] | None:
    """The source, the function and the statement of a fault."""
    file, line = evidence.frames[0] if evidence.frames else (evidence.fault.file, evidence.fault.line or 0)
    source = launch.source(file)
    function = source.function_at(line) if source else None
    statement = statement_on(source, function, line, evidence.name) if function else None
    return (source, function, statement) if statement else None


# ---- out of bounds ----


def _fix_bounds(launch: Launch, evidence: Evidence) -> Fix:
    raw = evidence.raw
    if fix := fix_matrix_rows(evidence):
        return fix
    dynamic = raw["space"] == "shared" and (raw["rank"] == 1 and raw["dims"][0] == 0) and not raw["before"]
    if dynamic and raw["size"] and raw["reach"] <= MAX_SHARED_BYTES:
        return _fix_dynamic_size(launch, raw["reach"])
    if raw["message"].startswith("illegal "):
        return Fix("Check the pointer and the index: the address is far outside of every array.")
    if raw["message"]:
        return Fix(_index_text(evidence))
    if raw["space"] == "shared":
        return _fix_static_size(launch, evidence) or Fix(_index_text(evidence))
    if raw["space"] == "":
        return Fix("Check the pointer: nothing has set it, or its index is far outside of the array.")
    return _fix_guard(launch, evidence) or Fix(
        f"Guard the access with the real extent of {evidence.name or 'the array'}, in each dimension: "
        "the row with the "
        "number of rows, the column with the number of columns."
    )


def _fix_dynamic_size(launch: Launch, needed: int) -> Fix:
    given = f"{launch.shared_bytes:,} bytes of" if launch.shared_bytes else "no"
    return Fix(
        f"The launch gives the kernel {given} dynamic shared memory, and it uses at least {needed:,} bytes: pass "
        f"--shared {needed} on the command line, kernel[grid, block, {needed}] in Python, <<<grid, "
        f"block, {needed}>>> "
        "in CUDA. It is counted in bytes, not in elements.",
        shared_bytes=needed,
    )


def _index_text(evidence: Evidence) -> str:
    raw, name = evidence.raw, evidence.name or "the array"
    if "constant memory" in raw["message"]:
        return f"A kernel cannot write constant memory: declare {name} __device__ instead of __constant__."
    if "local array" in raw["message"]:
        return "Give the local array as many elements as the functions write that get its address."
    if raw["rank"] > 1:
        return (
            f"Check each index of {name} against its own extent: a row that is one element too short, "
            "or two indices "
            "that are swapped. A tile with a halo needs that many rows and columns more."
        )
    if raw["before"] or re.search(r"index -", raw["message"]):
        return (
            f"The index of {name} is negative: leave out the threads that have no such neighbour, or "
            "read the index as "
            "an unsigned type."
        )
    return (
        f"Give {name} the elements that are used, and load them (a halo), or leave out the threads "
        "whose neighbour is "
        "one past the last."
    )


def _fix_static_size(launch: Launch, evidence: Evidence) -> Fix | None:
    """A shared array with fewer elements than the block has threads."""
    raw, name = evidence.raw, evidence.name
    element = raw["element"] or 1
    if raw["before"] or raw["rank"] != 1 or raw["reach"] != launch.threads * element:
        return None
    for file in launch.texts:
        source = launch.source(file)
        found = source and re.search(rf"__shared__[^;]*?\b{name}\s*\[([^\]]*)\]", source.code)
        if found:
            change = (found.start(1), found.end(1), str(launch.threads))
            return Fix(
                f"{name} has {raw['extent'] // element} elements, and the block has {launch.threads} "
                "threads: declare "
                f"{name}[{launch.threads}], or launch smaller blocks.",
                line_edits(file, source, [change]),
            )
    return None


def _fix_guard(launch: Launch, evidence: Evidence) -> Fix | None:
    """An index past the end of a one-dimensional array whose length is one of the kernel's arguments."""
    raw, name = evidence.raw, evidence.name
    context = _context(launch, evidence)
    if not context or not name or raw["before"] or raw["lead"] or not raw["size"]:
        return None
    source, _, statement = context
    code = source.code[statement.start : statement.end]
    count = raw["extent"] // raw["size"]
    lengths = [argument for argument, value in launch.scalars.items() if value == count]
    indices = re.findall(rf"\b{name}\s*\[([^\[\]]*)\]", code)
    index = max(indices, key=lambda text: ("+" in text, len(text)), default="")
    if not lengths or not index or re.search(r"[*/%]|--|\+\+", index) or statement.kind != "simple":
        return None
    if re.match(r"\s*(?:const\s+)?[A-Za-z_][\w:]*[\s*&]+\w+\s*[={]", code):
        return None  # a declaration cannot be left out
    condition = f"{index.strip()} < {lengths[0]}"
    line = source.line(statement.start)
    return Fix(
        f"Guard line {line} with `if ({condition})`: {name} has {lengths[0]} = {count} elements.",
        line_edits(evidence.frames[0][0], source, _guard(source, statement, condition)),
    )


def _guard(source: SourceText, statement: Statement, condition: str) -> list[Insertion]:
    """The changes that put a statement under a condition, beside one that is there already."""
    owner = statement.within.owner
    if owner and owner.kind == "if" and len(owner.parts) == 1 and len(statement.within.statements) == 1:
        start, end = owner.head
        old = source.text[start + 1 : end - 1]
        same = re.fullmatch(r"(.+?)\s*<=\s*(\w+)", old)
        new = condition if same and condition == f"{same[1]} < {same[2]}" else f"{old} && {condition}"
        return [(start + 1, end - 1, new)]
    indent = indentation(source, statement.start)
    return [(statement.start, statement.start, f"if ({condition})\n{indent}    ")]


# ---- uninitialised ----


def _fix_uninitialised(launch: Launch, evidence: Evidence) -> Fix:
    raw, name = evidence.raw, evidence.name
    text = "Let the threads write every element that is read, halo and tail too, and put __syncthreads() after it."
    element = raw["element"] or raw["size"] or 1
    count = raw["extent"] // element
    for file in launch.texts if name and raw["space"] == "shared" else ():
        source = launch.source(file)
        found = source and re.search(rf"__shared__\s+([^;]*?)\b{name}\s*(?:\[[^;]*)?;", source.code)
        if not found or (raw["rank"] == 1 and raw["dims"][0] == 0):
            continue
        new = _zeroing(launch, name, raw["rank"], count)
        indent = indentation(source, found.start())
        inserted = "".join(f"\n{indent}{line}" for line in new)
        line = source.line(found.end() - 1)
        text = (
            f"Set {name} to zero after its declaration in line {line}, with __syncthreads() after it, "
            "if zero is its "
            f"neutral value; or let a thread write {evidence.fault.variable} before it is read."
        )
        return Fix(text, line_edits(file, source, [(found.end(), found.end(), inserted)]))
    return Fix(text)


def _zeroing(launch: Launch, name: str, rank: int, count: int) -> list[str]:
    """The statements that set a shared array to zero."""
    _, y, z = launch.block
    index, threads = "threadIdx.x", "blockDim.x"
    if y > 1 or z > 1:
        index = "threadIdx.y * blockDim.x + threadIdx.x"
        threads = "blockDim.x * blockDim.y"
    if z > 1:
        index = "(threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x"
        threads += " * blockDim.z"
    first = f"if ({index} == 0)" if rank == 0 else f"for (int k = {index}; k < {count}; k += {threads})"
    target = name if rank == 0 else f"{name}[k]" if rank == 1 else f"(&{name}{'[0]' * rank})[k]"
    return [first, f"    {target} = {{}};", _BARRIER]


# ---- barriers ----


def _fix_barrier(launch: Launch, evidence: Evidence) -> Fix:
    context = _context(launch, evidence)
    for sign, text in MISUSE_TEXTS.items():
        if sign in evidence.fault.message:
            return Fix(text)
    if evidence.fault.cause in CAUSE_TEXTS:
        return Fix(CAUSE_TEXTS[evidence.fault.cause])
    if evidence.fault.cause == "warp":
        return _fix_lanes(launch, evidence, context)
    if not context:
        return Fix(MOVE_TEXT)
    source, function, statement = context
    guards = launch.guards(source, function)
    if evidence.fault.cause == "exited":
        return _fix_early_return(evidence, source, function, statement, guards)
    vote = _VOTE.search(source.code, statement.start, statement.head[1] or statement.end)
    if vote and statement.kind != "simple":
        return _fix_vote(source, statement, vote, evidence)
    if not _BARRIER_STATEMENT.fullmatch(_code(source, statement)):
        return Fix(MOVE_TEXT)
    fix = _fix_branches(source, statement, guards, evidence) or _fix_branch(source, statement, guards, evidence)
    return fix or Fix(_loop_text(source, statement, guards) or MOVE_TEXT)


_BARRIER_STATEMENT = re.compile(
    r"__syncthreads\s*\(\s*\)\s*;|(?:\w+\s*::\s*)?sync\s*\(\s*\w+\s*\)\s*;|\w+\s*\.\s*sync\s*\(\s*\)\s*;"
)
_VOTE = re.compile(r"__syncthreads_(?:or|and|count)\s*\([^()]*\)")


def _fix_vote(source: SourceText, statement: Statement, vote: re.Match[str], evidence: Evidence) -> Fix:
    """A voting barrier in a condition that not all threads evaluate to its end."""
    indent = indentation(source, statement.start)
    changes = [
        (
            statement.start,
            statement.start,
            f"const int vote = {source.text[vote.start() : vote.end()]};\n{indent}",
        ),
        (vote.start(), vote.end(), "vote"),
    ]
    line = source.line(statement.start)
    return Fix(
        f"Call {vote[0]} before line {line} and use its result: && and || do not evaluate their "
        "second operand for "
        "every thread.",
        line_edits(evidence.fault.file, source, changes),
    )


def _loop_text(source: SourceText, statement: Statement, guards) -> str:
    """Advice on a barrier in a loop that not all threads run equally often."""
    loop = next((ancestor for ancestor in statement.ancestors() if ancestor.kind in LOOPS), None)
    if loop is None:
        return ""
    line = source.line(loop.start)
    if re.search(r"\bbreak\b", source.code[loop.start : loop.end]):
        return (
            f"Let all threads leave the loop of line {line} together: `if (!__syncthreads_or(condition)) break;`."
        )
    return (
        f"The threads run the loop of line {line} a different number of times: let it count the same "
        "for all, `for (int "
        "first = 0; first < n; first += blockDim.x)`, and guard the work with `if (first + "
        "threadIdx.x < n)`, so that "
        "the barriers are outside of the `if`."
    )


def _cause(message: str, context: tuple[SourceText, Function, Statement] | None, guards) -> str:
    """Why not all threads reach a barrier: "exited" (they returned early), "warp" (lanes of a collective),
    "matrix" (of an instruction for a whole warp), "named" (a named barrier), "mbarrier", or "" (a branch or a
    loop)."""
    if "needs all 32 lanes" in message:
        return "matrix"
    if ("mbarrier" in message or "a cuda::barrier" in message) and "divergence" not in message:
        return "mbarrier"
    if "warp divergence" in message or " for lanes of mask " in message:
        return "warp"
    if " for barrier " in message or "divergence" not in message:
        return "named"
    if "exited" not in message or context is None:
        return ""
    _, _, statement = context
    if _is_around_some(statement, guards):
        return ""
    return "exited" if _early_returns(context, guards) else ""


def _is_around_some(statement: Statement, guards) -> bool:
    """Whether a statement is in a branch or a loop that not all threads run alike."""
    return any(not guards.is_uniform(ancestor) for ancestor in list(statement.ancestors())[1:])


def _early_returns(context, guards) -> list[Statement]:
    """The returns before a statement that only some threads reach."""
    source, function, statement = context
    return [
        earlier
        for earlier in function.walk()
        if earlier.end <= statement.start
        and re.match(r"return\b", source.code[earlier.start : earlier.end])
        and _is_around_some(earlier, guards)
    ]


def _fix_branch(source, statement: Statement, guards, evidence: Evidence) -> Fix | None:
    """A barrier inside an `if`: end the `if` before it, and begin it again after it."""
    owner = statement.within.owner
    if not owner or owner.kind != "if" or not is_reached(guards, Gap(owner.within, owner.index)):
        return None
    line, removed = source.line(statement.start), (statement.start, statement.end, "")
    siblings = statement.within.statements
    before, after = statement.index > 0, statement.index + 1 < len(siblings)
    if before and after:
        split = split_if(guards, Gap(statement.within, statement.index), _code(source, statement).strip())
        changes = [(statement.start, statement.end, split[0][2].lstrip())] if split else []
        text = (
            f"End the `if` of line {source.line(owner.start)} before line {line}, put the barrier "
            "outside of it, and "
            "begin the `if` again after it."
        )
    elif len(owner.parts) > 1:
        return None
    else:
        gap = Gap(owner.within, owner.index + (1 if before else 0))
        changes = [removed, *insertions(source, gap, _code(source, statement).strip())]
        text = f"Move the barrier of line {line} out of the `if`: {describe(source, gap)}."
    return (
        Fix(text, line_edits(evidence.frames[0][0] if evidence.frames else evidence.fault.file, source, changes))
        if changes
        else None
    )


def _fix_branches(source, statement: Statement, guards, evidence: Evidence) -> Fix | None:
    """Both branches of an `if` end with a barrier: one after them replaces the two."""
    owner = statement.within.owner
    if not owner or owner.kind != "if" or len(owner.parts) != 2:
        return None
    last = [part.statements[-1] for part in owner.parts if part.statements]
    ends = [statement for statement in last if source.code.startswith("__syncthreads", statement.start)]
    gap = Gap(owner.within, owner.index + 1)
    if len(ends) != 2 or not is_reached(guards, gap):
        return None
    changes = [(statement.start, statement.end, "") for statement in ends] + insertions(source, gap, _BARRIER)
    lines = " and ".join(str(source.line(statement.start)) for statement in ends)
    return Fix(
        f"Replace the barriers of lines {lines} by one, {describe(source, gap)}, outside the `if`: "
        "they are two different "
        "barriers.",
        line_edits(evidence.fault.file, source, changes),
    )


def _fix_early_return(
    evidence: Evidence, source: SourceText, function: Function, statement: Statement, guards
) -> Fix:
    """Threads return before a barrier: keep them, without work, until the last one."""
    returns = _early_returns((source, function, statement), guards)
    line = source.line(returns[0].start)
    text = (
        f"Replace the return of line {line} by a guard around the work, so that every thread stays until the last "
        "barrier."
    )
    changes = _guard_segments(source, function, returns)
    return Fix(text, line_edits(evidence.fault.file, source, changes))


def _guard_segments(source: SourceText, function: Function, returns: list[Statement]) -> list[Insertion]:
    """The changes that turn `if (c) return;` into guards around the statements between the barriers; none where
    what one of these parts declares is used in another."""
    owner = returns[0].within.owner
    if len(returns) != 1 or not owner or owner.kind != "if" or owner.within is not function.body:
        return []
    if len(owner.parts) > 1 or len(owner.parts[0].statements) > 1:
        return []
    rest = function.body.statements[owner.index + 1 :]
    segments: list[list[Statement]] = [[]]
    for sibling in rest:
        if source.code.startswith("__syncthreads", sibling.start):
            segments.append([])
        else:
            segments[-1].append(sibling)
    condition = source.text[slice(*owner.head)]
    changes: list[Insertion] = [(owner.start, owner.end, "")]
    for segment in filter(None, segments):
        if any(
            re.match(r"(?:const\s+)?[A-Za-z_][\w:]*[\s*&]+[A-Za-z_]\w*\s*[=;,\[({]", _code(source, sibling))
            and not _code(source, sibling).startswith("return")
            for sibling in segment
            if sibling.kind == "simple"
        ):
            return []
        indent = indentation(source, segment[0].start)
        inner = source.text[segment[0].start : segment[-1].end].replace("\n", "\n    ")
        new = f"if (!{condition}) {{\n{indent}    {inner}\n{indent}}}"
        changes.append((segment[0].start, segment[-1].end, new))
    return changes


def _code(source: SourceText, statement: Statement) -> str:
    return source.code[statement.start : statement.end]


# ---- shuffles ----

_SHUFFLE = re.compile(r"__(?:shfl\w*|ballot|any|all|match\w*|reduce\w*|sync\w*)(?:_sync)?\s*\(\s*([^,()]+)")
_WIDTH = re.compile(r"(__shfl\w*_sync)\s*\(([^(),]*),([^(),]*),([^(),]*)\)")


def _fix_lanes(launch: Launch, evidence: Evidence, context) -> Fix:
    """A warp collective whose mask names lanes that do not reach it."""
    text = (
        "The mask names lanes that do not reach this line. Let all lanes of the warp reach it, "
        "with a neutral value; or "
        "build the mask before the branch, `unsigned lanes = __ballot_sync(0xffffffff, condition);`, "
        "and use it as the "
        "mask. A barrier of the block is of no use here."
    )
    if not context:
        return Fix(text)
    source, function, statement = context
    guards = launch.guards(source, function)
    found = _SHUFFLE.search(source.code, statement.start, statement.end)
    around = [ancestor for ancestor in list(statement.ancestors())[1:] if not guards.is_uniform(ancestor)]
    if not found or len(around) != 1 or around[0].kind != "if" or statement.within is not around[0].parts[0]:
        return Fix(text)
    owner = around[0]
    indent = indentation(source, owner.start)
    condition = source.text[slice(*owner.head)][1:-1]
    first = f"const unsigned lanes = __ballot_sync(0xffffffff, {condition});\n{indent}"
    changes = [(owner.start, owner.start, first), (found.start(1), found.end(1), "lanes")]
    line = source.line(statement.start)
    text = (
        f"Only the lanes that enter the `if` of line {source.line(owner.start)} reach line {line}, "
        "and its mask names "
        "others. Build the mask before the branch, with __ballot_sync and the condition, and read "
        "only from lanes in "
        "it; or move the shuffle before the `if`. A barrier of the block is of no use here."
    )
    return Fix(text, line_edits(evidence.fault.file, source, changes))


def _fix_shuffle(launch: Launch, evidence: Evidence) -> Fix:
    message = evidence.raw["message"]
    context = _context(launch, evidence)
    if "has exited" in message:
        return Fix(
            "Lanes that returned earlier give no value. Keep all 32 lanes until the shuffle, those "
            "without work with a "
            "neutral value (0 for a sum); or take a mask of the lanes that are left, "
            "`__ballot_sync(0xffffffff, i < n)` before the return, and read from these lanes only."
        )
    if "of the block" in message:
        return Fix(
            "The last warp of the block has fewer than 32 threads: launch whole warps, or read only "
            "from lanes that "
            "exist (a smaller width, or a smaller first distance)."
        )
    mask = re.search(r"mask 0x([0-9a-f]+)", message)
    lanes = int(mask[1], 16) if mask else 0
    count = lanes.bit_length()
    found = context and _WIDTH.search(context[0].code, context[2].start, context[2].end)
    if found and count < 32 and lanes == (1 << count) - 1 and count & (count - 1) == 0:
        change = (found.end() - 1, found.end() - 1, f", {count}")
        line = context[0].line(context[2].start)
        return Fix(
            f"The mask names {count} lanes, and line {line} reads beyond them: give the shuffle their "
            "number as its width "
            f"({count}), or begin with a distance of {count // 2}.",
            line_edits(evidence.fault.file, context[0], [change]),
        )
    return Fix(
        "Put the source lane into the mask, or choose the width, or the first distance of a loop, so "
        "that sources stay "
        "among the lanes of the mask."
    )


# ---- traps ----


def _fix_trap(launch: Launch, evidence: Evidence) -> Fix:
    message = evidence.raw["message"]
    if "division by zero" in message:
        return Fix("Test the divisor before the division: an integer division by zero is undefined on a GPU.")
    if "without its return" in message:
        return Fix("Add a return statement to the path that reaches the end of the function.")
    return Fix(
        "Look at the values that led to this line; on a GPU the launch ends with an error, without results."
    )


_FIXES: dict[str, Callable[[Launch, Evidence], Fix]] = {
    "out_of_bounds": _fix_bounds,
    "uninitialised": _fix_uninitialised,
    "barrier": _fix_barrier,
    "shuffle": _fix_shuffle,
    "misaligned": fix_misaligned,
    "trap": _fix_trap,
}
