"""Inline PTX that has a counterpart in the dialect: a block of instructions becomes one C++ expression.

The PTX ISA names the semantics: special registers, arithmetic, bit operations, shuffles and votes, barriers,
fences, loads and stores with a cache hint or a memory order. Registers that a block declares become local
variables, and a predicate an `if`.
"""

import re

__all__ = ["SUPPORTED", "translated"]

SUPPORTED = (
    "barriers, fences, special registers, shuffles, arithmetic on 32 and 64 bits, plain loads and stores, and "
    "cp.async"
)

_INSTRUCTION = re.compile(
    r"(?:@(?P<negated>!?)(?P<predicate>\w+)\s+)?(?P<name>[a-z][\w.:]*)(?:\s+(?P<operands>.*))?", re.DOTALL
)
_DECLARATION = re.compile(r"\.reg\s+\.(?P<type>\w+)\s+(?P<names>[\w\s,%]+)")
_OPERAND = re.compile(r"\{[^}]*\}|[^,{}]+")
_TYPES = {"pred": "bool", "f32": "float", "f64": "double"}
_TYPES |= {f"{letter}{bits}": f"uint{bits}_t" for letter in "ub" for bits in (8, 16, 32, 64)}
_TYPES |= {f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)}
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
_ORDER = r"\.(?:cta|gpu|sys)(?:\.global|\.shared)?"
_INTEGER, _ANY = r"\.[bus](?:16|32|64)", r"\.(?:[bus](?:16|32|64)|f32|f64)"
# instruction → its expression: $0 is the first operand, …, $T the C++ type of the last suffix
_INSTRUCTIONS = {
    rf"mov{_ANY}": "$0 = $1",
    r"bfind\.u32": "$0 = 31 - __clz($1)",
    r"clz\.b32": "$0 = __clz($1)",
    r"popc\.b32": "$0 = __popc($1)",
    r"brev\.b32": "$0 = __brev($1)",
    r"bfe\.u32": "$0 = smemkit::bit_field($1, $2, $3)",
    r"prmt\.b32": "$0 = __byte_perm($1, $2, $3)",
    r"lop3\.b32": "$0 = smemkit::lop3($1, $2, $3, $4)",
    r"vabsdiff4\.u32\.u32\.u32\.add": "$0 = __vsadu4($1, $2) + $3",
    rf"add{_ANY}": "$0 = ($T)$1 + ($T)$2",
    rf"sub{_ANY}": "$0 = ($T)$1 - ($T)$2",
    rf"mul\.lo{_INTEGER}": "$0 = ($T)$1 * ($T)$2",
    rf"mad\.lo{_INTEGER}": "$0 = ($T)$1 * ($T)$2 + ($T)$3",
    rf"min{_ANY}": "$0 = min(($T)$1, ($T)$2)",
    rf"max{_ANY}": "$0 = max(($T)$1, ($T)$2)",
    rf"and{_INTEGER}": "$0 = $1 & $2",
    rf"or{_INTEGER}": "$0 = $1 | $2",
    rf"xor{_INTEGER}": "$0 = $1 ^ $2",
    r"and\.pred": "$0 = $1 && $2",
    r"or\.pred": "$0 = $1 || $2",
    rf"not{_INTEGER}": "$0 = ~$1",
    rf"shl{_INTEGER}": "$0 = $2 < 8 * sizeof($T) ? ($T)$1 << $2 : 0",
    rf"shr{_INTEGER}": "$0 = ($T)$1 >> ($2 < 8 * sizeof($T) ? $2 : 8 * sizeof($T) - 1)",
    rf"selp{_ANY}": "$0 = $3 ? $1 : $2",
    **{
        rf"setp\.{name}{_ANY}": f"$0 = ($T)$1 {operator} ($T)$2"
        for name, operator in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items()
    },
    **{
        rf"shfl\.sync\.{mode}\.b32": f"$0 = smemkit::ptx_shuffle('{mode[0]}', $1, $2, $3, $4, $P)"
        for mode in ("up", "down", "bfly", "idx")
    },
    r"vote(?:\.sync)?\.ballot(?:\.sync)?\.b32": "$0 = __ballot_sync($2, $1)",
    **{
        rf"(?:bar|barrier)(?:\.cta)?\.{does}(?:\.aligned)?": (
            f"smemkit::named_barrier($0, $1, {wait}, __FILE__, __LINE__)"
        )
        for does, wait in (("sync", "true"), ("arrive", "false"))
    },
    r"membar\.cta|fence\.(?:acq_rel|sc)\.cta": "__threadfence_block()",
    r"membar\.gl|fence\.(?:acq_rel|sc)\.gpu": "__threadfence()",
    r"membar\.sys|fence\.(?:acq_rel|sc)\.sys": "__threadfence_system()",
    r"trap": "__trap()",
    r"cp\.async\.c[ag]\.shared(?:::cta)?\.global(?:\.L2::\d+B)?": (
        "smemkit::ptx_async_copy((uint64_t)$0, (const void *)$1, $2, $3)"
    ),
    r"cp\.async\.commit_group": "smemkit_async_commit()",
    r"cp\.async\.wait_group": "smemkit_async_wait((unsigned)$0)",
    r"cp\.async\.wait_all": "(smemkit_async_commit(), smemkit_async_wait(0))",
    rf"ld\.acquire{_ORDER}\.[bus]\d+": "$0 = __nv_atomic_load_n((const $T *)$1, 2)",
    rf"ld\.relaxed{_ORDER}\.[bus]\d+": "$0 = __nv_atomic_load_n((const $T *)$1, 0)",
    rf"st\.release{_ORDER}\.[bus]\d+": "__nv_atomic_store_n(($T *)$0, ($T)$1, 3)",
    rf"st\.relaxed{_ORDER}\.[bus]\d+": "__nv_atomic_store_n(($T *)$0, ($T)$1, 0)",
    r"ld\.(?:volatile\.)?global(?:\.(?:ca|cg|cs|lu|cv|nc))*\.(?:[bus]\d+|f32|f64)": "$0 = __ldcg((const $T *)$1)",
    r"st\.(?:volatile\.)?global(?:\.(?:wb|cg|cs|wt))*\.(?:[bus]\d+|f32|f64)": "__stcg(($T *)$0, ($T)$1)",
}
_HALVES = {"unpack": "smemkit::unpack($2, $0, $1)", "pack": "smemkit::pack($0, $1, $2)"}


def translated(statements: list[str], values: list[str]) -> tuple[str, str]:
    """The C++ of PTX statements whose operands %0, %1 … have these values, and "". If one has no counterpart, ""
    and that statement.

    Examples
    --------
    >>> translated(["mov.u32 %0, %%laneid"], ["(lane)"])
    ('((lane) = smemkit::lane())', '')
    >>> translated(["wgmma.fence.sync.aligned"], [])
    ('', 'wgmma.fence.sync.aligned')
    """
    registers: dict[str, str] = {}  # name → C++ type
    lines = []
    for statement in statements:
        declared = _DECLARATION.fullmatch(statement)
        if declared and declared["type"] in _TYPES:
            names = re.findall(r"\w+", declared["names"])
            registers |= dict.fromkeys(names, _TYPES[declared["type"]])
            continue
        line = _instruction(statement, values, registers)
        if line is None:
            return "", statement
        lines.append(line)
    if not registers:
        return f"({', '.join(lines)})", ""
    locals_ = "".join(f"{kind} ptx_{name} = 0; " for name, kind in registers.items())
    return f"[&]() SMEMKIT_UNSEEN {{ {locals_}{'; '.join(lines)}; }}()", ""


def _instruction(statement: str, values: list[str], registers: dict[str, str]) -> str | None:
    match = _INSTRUCTION.fullmatch(statement)
    if not match or (match["predicate"] and match["predicate"] not in registers):
        return None
    template = next((text for form, text in _INSTRUCTIONS.items() if re.fullmatch(form, match["name"])), None)
    texts = [one.strip() for one in _OPERAND.findall(match["operands"] or "") if one.strip()]
    if "named_barrier" in (template or "") and len(texts) == 1:
        texts.append("0")
    if "async_copy" in (template or "") and len(texts) == 3:
        texts.append(texts[2])  # as many bytes are read as are written
    if match["name"] == "mov.b64" and len(texts) == 2 and "{" in "".join(texts):
        template = _HALVES["unpack" if "{" in texts[0] else "pack"]
        texts = re.findall(r"[^\s,{}]+", ",".join(texts))
    first, _, predicate = texts[0].partition("|") if texts else ("", "", "")
    operands = [_operand(one, values, registers) for one in ([first, *texts[1:]] if texts else [])]
    if template is None or None in operands or len(set(re.findall(r"\$\d", template))) != len(operands):
        return None
    where = f"&ptx_{predicate}" if predicate in registers else "nullptr"
    suffix = _TYPES.get(match["name"].rpartition(".")[2], "")
    filled = re.sub(
        r"\$(\w)", lambda one: {"T": suffix, "P": where}.get(one[1]) or operands[int(one[1])], template
    )
    return f"if ({match['negated']}ptx_{match['predicate']}) {filled}" if match["predicate"] else filled


def _operand(text: str, values: list[str], registers: dict[str, str]) -> str | None:
    """The C++ of an operand: %1, [%1], a register or a number."""
    text = text.strip("[] \t")
    if text.lstrip("%") in registers:
        return f"ptx_{text.lstrip('%')}"
    special = re.fullmatch(r"%%?([a-z]\w*(?:\.[xyz])?)", text)
    if special:
        return _REGISTERS.get(special[1])
    try:
        return values[int(text[1:])] if text.startswith("%") else str(int(text, 0))
    except (ValueError, IndexError):
        return None
