"""Inline PTX that has a counterpart in the dialect: one instruction becomes one C++ expression.

PTX ISA names the semantics: special registers, bit operations, barriers, fences, loads and stores with a cache hint
or a memory order.
"""

import re
from collections.abc import Callable

__all__ = ["SUPPORTED", "expression"]

_STATEMENT = re.compile(r"(?P<name>[a-z][\w.:]*)(?:\s+(?P<operands>.*))?", re.DOTALL)
_BARRIER = re.compile(r"(?:bar|barrier)(?:\.cta)?\.(?P<does>sync|arrive)(?:\.aligned)?")
_TYPE = {"u": "uint{}_t", "b": "uint{}_t", "s": "int{}_t"}
_REGISTERS = {
    "laneid": "smemkit::lane()",
    "warpid": "smemkit::warp()",
    "smid": "0u",
    "nsmid": "1u",
    "lanemask_eq": "(1u << smemkit::lane())",
    "lanemask_lt": "((1u << smemkit::lane()) - 1)",
    "lanemask_le": "((2u << smemkit::lane()) - 1)",
    "lanemask_gt": "~((2u << smemkit::lane()) - 1)",
    "lanemask_ge": "~((1u << smemkit::lane()) - 1)",
    "clock": "(unsigned)clock64()",
    "clock64": "clock64()",
    "globaltimer": "smemkit::nanoseconds()",
    **{f"tid.{axis}": f"threadIdx.{axis}" for axis in "xyz"},
    **{f"ntid.{axis}": f"blockDim.{axis}" for axis in "xyz"},
    **{f"ctaid.{axis}": f"blockIdx.{axis}" for axis in "xyz"},
    **{f"nctaid.{axis}": f"gridDim.{axis}" for axis in "xyz"},
}
# instruction → its expression: $0 is the result, $1 … the operands, $T the type of the last suffix
_INSTRUCTIONS = {
    r"mov\.[bus](?:16|32|64)": "$0 = $1",
    r"bfind\.u32": "$0 = 31 - __clz($1)",
    r"clz\.b32": "$0 = __clz($1)",
    r"popc\.b32": "$0 = __popc($1)",
    r"brev\.b32": "$0 = __brev($1)",
    r"prmt\.b32": "$0 = __byte_perm($1, $2, $3)",
    r"lop3\.b32": "$0 = smemkit::lop3($1, $2, $3, $4)",
    r"vabsdiff4\.u32\.u32\.u32\.add": "$0 = __vsadu4($1, $2) + $3",
    r"(?:add|sub)\.[us](?:32|64)": "$0 = ($T)$1 $O ($T)$2",
    r"membar\.cta|fence\.(?:acq_rel|sc)\.cta": "__threadfence_block()",
    r"membar\.gl|fence\.(?:acq_rel|sc)\.gpu": "__threadfence()",
    r"membar\.sys|fence\.(?:acq_rel|sc)\.sys": "__threadfence_system()",
    r"trap": "__trap()",
    r"ld\.acquire\.(?:cta|gpu|sys)(?:\.global|\.shared)?\.[bus]\d+": "$0 = __nv_atomic_load_n((const $T *)$1, 2)",
    r"ld\.relaxed\.(?:cta|gpu|sys)(?:\.global|\.shared)?\.[bus]\d+": "$0 = __nv_atomic_load_n((const $T *)$1, 0)",
    r"st\.release\.(?:cta|gpu|sys)(?:\.global|\.shared)?\.[bus]\d+": "__nv_atomic_store_n(($T *)$0, ($T)$1, 3)",
    r"st\.relaxed\.(?:cta|gpu|sys)(?:\.global|\.shared)?\.[bus]\d+": "__nv_atomic_store_n(($T *)$0, ($T)$1, 0)",
    r"ld\.(?:volatile\.)?global(?:\.(?:ca|cg|cs|lu|cv|nc))*\.[bus]\d+": "$0 = __ldcg((const $T *)$1)",
    r"st\.(?:volatile\.)?global(?:\.(?:wb|cg|cs|wt))*\.[bus]\d+": "__stcg(($T *)$0, ($T)$1)",
}
SUPPORTED = "barriers, fences, special registers, bit operations, and plain loads and stores"


def expression(statement: str, values: list[str]) -> str | None:
    """The C++ of a PTX statement whose operands %0, %1 … have these values; None if it has no counterpart.

    Examples
    --------
    >>> expression("mov.u32 %0, %%laneid", ["(lane)"])
    '(lane) = smemkit::lane()'
    >>> expression("wgmma.fence.sync.aligned", []) is None
    True
    """
    match = _STATEMENT.fullmatch(statement.strip())
    if not match:
        return None
    operands = [_operand(one.strip(), values) for one in (match["operands"] or "").split(",") if one.strip()]
    if None in operands:
        return None
    barrier = _BARRIER.fullmatch(match["name"])
    if barrier:
        return _barrier(barrier["does"], operands)
    for pattern, template in _INSTRUCTIONS.items():
        if re.fullmatch(pattern, match["name"]):
            return _filled(template, operands, match["name"])
    return None


def _filled(template: str, operands: list[str], name: str) -> str | None:
    wanted = {int(number) for number in re.findall(r"\$(\d)", template)}
    if len(operands) != len(wanted):
        return None
    suffix = re.search(r"([bus])(\d+)$", name)
    special: dict[str, Callable[[], str]] = {
        "$T": lambda: _TYPE[suffix[1]].format(suffix[2]) if suffix else "",
        "$O": lambda: "+" if name.startswith("add") else "-",
    }
    return re.sub(
        r"\$(\w)", lambda found: special[found[0]]() if found[0] in special else operands[int(found[1])], template
    )


def _operand(text: str, values: list[str]) -> str | None:
    """The C++ of an operand: %1, [%1], %%laneid or a number."""
    text = text.strip("[] \t")
    register = re.fullmatch(r"%%?([a-z]\w*(?:\.[xyz])?)", text)
    if register:
        return _REGISTERS.get(register[1])
    try:
        return values[int(text[1:])] if text.startswith("%") else str(int(text, 0))
    except (ValueError, IndexError):
        return None


def _barrier(does: str, operands: list[str]) -> str | None:
    if not 1 <= len(operands) <= 2:
        return None
    number, threads = [*operands, "0"][:2]
    wait = "true" if does == "sync" else "false"
    return f"smemkit::named_barrier({number}, {threads}, {wait}, __FILE__, __LINE__)"
