"""The instructions of PTX that the CPU device has: a table of forms, and what each becomes in C++.

A form is three texts: the instruction's name with its modifiers, its operands, both in the PTX ISA's order, and a
C++ statement that calls a function of the dialect (csrc/executor/include/smemkit/ptx/). The words of a name:

    rn|rz        one of these           ftz?     may be missing          hint*    any number of them
    type=u32|s32 one of these, $type    INT      a class of modifiers, see _CLASSES

The operands: d is written, the others are read; [a] is an address, in shared memory where the name says so or as
in [a:shared]; [a;v] is one with coordinates, the vector $v; {d} is a vector, in C++ an array $d of $nd words; d|p
may write a predicate, in C++ a pointer $p that may be null; x?0 may be missing, and is then 0. {&d} is a vector of
operands that stay where they are, in C++ an array $d of their addresses; {&a} the same with their values, $a, and
addresses, $a_at. @ is the prefix of the dialect's names. $flag_x is true if the name has modifier x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .ptx_async_forms import ASYNC_FORMS

__all__ = ["SPECIAL_REGISTERS", "Form", "forms_of", "instruction_names"]


@dataclass(frozen=True)
class Form:
    """A form of an instruction.

    Attributes
    ----------
    words : tuple of str
        The words of its name.
    operands : tuple of str
    statement : str
        The C++, a string.Template.
    header : str
        The header of the dialect that it needs: "matrix".
    word : str
        The C++ type of the elements of its vectors.
    """

    words: tuple[str, ...]
    operands: tuple[str, ...]
    statement: str
    header: str
    word: str = "uint32_t"

    def match(self, name: tuple[str, ...]) -> dict[str, str] | None:
        """The modifiers that a name chooses, by key; None if it is not of this form."""
        chosen: dict[str, str] = {}
        at = 0
        for word in self.words:
            key, _, text = word.rpartition("=")
            key = key or text.rstrip("?*")
            alternatives = _alternatives(text.rstrip("?*"))
            count = 0
            while at < len(name) and _among(name[at], alternatives) and (count == 0 or word.endswith("*")):
                chosen[key] = name[at]
                at, count = at + 1, count + 1
            if count == 0 and word[-1] not in "?*":
                return None
        return chosen if at == len(name) else None


_INT = "u16|u32|u64|s16|s32|s64"
_CLASSES = {
    "INT": _INT,
    "BITS": "b16|b32|b64",
    "ANY": f"{_INT}|b16|b32|b64|f32|f64",
    "MEMORY": f"{_INT}|b8|u8|s8|b16|b32|b64|f32|f64",
    "HALF": "f16|f16x2|bf16|bf16x2",
    "ROUND": "rn|rz|rm|rp",
    "ORDER": "relaxed|acquire|release|acq_rel",
    "ARRIVAL": "release|relaxed",
    "WAIT": "acquire|relaxed",
    "SCOPE": "cta|cluster|gpu|sys",
    "SPACE": "global|shared|shared::cta|local|const|param",
    "REMOTE": "global|shared|shared::cta|shared::cluster|local|const|param",
    "SHARED": "shared|shared::cta",
    "CLUSTER": "shared|shared::cta|shared::cluster",
    "WINDOW": "shared::cta|shared::cluster",
    "TX": "mbarrier::complete_tx::bytes",
    "HINT": "L1::*|L2::*|level::*",
    "CACHE": "ca|cg|cs|lu|cv|wb|wt",
    "CACHED": "ca|cg",
    "CARRY": "u32|s32|u64|s64",
    "FLOAT": "f32|f64",
    "COMPARISON": "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan",
    "ATOMIC": "add|min|max|and|or|xor|inc|dec|exch",
    "TYPE": "f16|bf16|tf32|f32|f64|s8|u8|s4|u4|b1|s32",
    "WGMMA": "|".join(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16, 32)),
    "SHAPE": "m8n8k4|m8n8k16|m8n8k32|m8n8k128|m16n8k4|m16n8k8|m16n8k16|m16n8k32|m16n8k64|m16n8k128|m16n8k256",
}


@cache
def _alternatives(text: str) -> tuple[str, ...]:
    return tuple(alternative for word in text.split("|") for alternative in _CLASSES.get(word, word).split("|"))


def _among(modifier: str, alternatives: tuple[str, ...]) -> bool:
    return any(
        modifier.startswith(alternative[:-1]) if alternative.endswith("*") else modifier == alternative
        for alternative in alternatives
    )


_AXES = {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}
SPECIAL_REGISTERS = {
    "laneid": "smemkit::lane()",
    "warpid": "smemkit::warp()",
    "nwarpid": "(1024 / 32)",
    "smid": "0u",
    "nsmid": "1u",
    "gridid": "0u",
    "lanemask_eq": "(1u << smemkit::lane())",
    "lanemask_lt": "((1u << smemkit::lane()) - 1)",
    "lanemask_le": "((2u << smemkit::lane()) - 1)",
    "lanemask_gt": "~((2u << smemkit::lane()) - 1)",
    "lanemask_ge": "~((1u << smemkit::lane()) - 1)",
    "clock": "(unsigned)clock64()",
    "clock_hi": "(unsigned)(clock64() >> 32)",
    "clock64": "clock64()",
    "globaltimer": "smemkit::nanoseconds()",
    "globaltimer_lo": "(unsigned)smemkit::nanoseconds()",
    "globaltimer_hi": "(unsigned)(smemkit::nanoseconds() >> 32)",
    "WARP_SZ": "32",
    # without a cluster a block is one of its own
    "is_explicit_cluster": "(smemkit_cluster_dim(0) * smemkit_cluster_dim(1) * smemkit_cluster_dim(2) > 1)",
    "cluster_ctarank": "smemkit_cluster_rank()",
    "cluster_nctarank": "(smemkit_cluster_dim(0) * smemkit_cluster_dim(1) * smemkit_cluster_dim(2))",
    **{f"{name}.{axis}": f"{object_}.{axis}" for name, object_ in _AXES.items() for axis in "xyz"},
    **{f"clusterid.{axis}": f"(blockIdx.{axis} / smemkit_cluster_dim({i}))" for i, axis in enumerate("xyz")},
    **{f"nclusterid.{axis}": f"(gridDim.{axis} / smemkit_cluster_dim({i}))" for i, axis in enumerate("xyz")},
    **{f"cluster_ctaid.{axis}": f"(blockIdx.{axis} % smemkit_cluster_dim({i}))" for i, axis in enumerate("xyz")},
    **{f"cluster_nctaid.{axis}": f"smemkit_cluster_dim({i})" for i, axis in enumerate("xyz")},
}

# header → name and modifiers; operands; C++
_FORMS = {
    "arithmetic": [
        ("mov type=ANY|pred", "d, a", "$d = $a"),
        ("mov type=BITS", "d, {a}", "$d = @join<@bits<@$type>, $na>($a)"),
        ("mov type=BITS", "{d}, a", "@split<@bits<@$type>, $nd>($a, $d)"),
        ("add sat s32", "d, a, b", "$d = @saturated<@s32>((int64_t)(@s32)$a + (@s32)$b)"),
        ("sub sat s32", "d, a, b", "$d = @saturated<@s32>((int64_t)(@s32)$a - (@s32)$b)"),
        ("op=add|sub type=INT", "d, a, b", "$d = @${op}_op()((@$type)$a, (@$type)$b)"),
        ("add cc type=CARRY", "d, a, b", "$d = @add_carry<@$type, false, true>($a, $b, smemkit_carry)"),
        ("addc cc? type=CARRY", "d, a, b", "$d = @add_carry<@$type, true, $flag_cc>($a, $b, smemkit_carry)"),
        ("sub cc type=CARRY", "d, a, b", "$d = @sub_borrow<@$type, false, true>($a, $b, smemkit_carry)"),
        ("subc cc? type=CARRY", "d, a, b", "$d = @sub_borrow<@$type, true, $flag_cc>($a, $b, smemkit_carry)"),
        (
            "op=add|sub|mul round=ROUND? ftz? sat? type=FLOAT",
            "d, a, b",
            "$d = @rounded<@$type, @$round, $flag_ftz, $flag_sat>(@${op}_op(), $a, $b)",
        ),
        (
            "op=add|sub|mul rn? ftz? sat? type=HALF",
            "d, a, b",
            "$d = @packed<@$type, $flag_sat>(@${op}_op(), $a, $b)",
        ),
        ("mul part=lo|hi type=INT", "d, a, b", "$d = @multiply<@$type, $flag_hi>($a, $b)"),
        ("mul wide type=u16|u32|s16|s32", "d, a, b", "$d = @multiply_wide<@$type>($a, $b)"),
        ("mul24 part=lo|hi type=u32|s32", "d, a, b", "$d = @multiply_24<@$type, $flag_hi>($a, $b)"),
        ("mad part=lo|hi type=INT", "d, a, b, c", "$d = @multiply<@$type, $flag_hi>($a, $b) + $c"),
        ("mad wide type=u16|u32|s16|s32", "d, a, b, c", "$d = @multiply_wide<@$type>($a, $b) + $c"),
        ("mad24 part=lo|hi type=u32|s32", "d, a, b, c", "$d = @multiply_24<@$type, $flag_hi>($a, $b) + $c"),
        (
            "mad part=lo|hi cc type=CARRY",
            "d, a, b, c",
            "$d = @add_carry<@$type, false, true>(@multiply<@$type, $flag_hi>($a, $b), $c, smemkit_carry)",
        ),
        (
            "madc part=lo|hi cc? type=CARRY",
            "d, a, b, c",
            "$d = @add_carry<@$type, true, $flag_cc>(@multiply<@$type, $flag_hi>($a, $b), $c, smemkit_carry)",
        ),
        (
            "op=fma|mad round=ROUND ftz? sat? type=FLOAT",
            "d, a, b, c",
            "$d = @rounded<@$type, @$round, $flag_ftz, $flag_sat>(@fma_op(), $a, $b, $c)",
        ),
        (
            "fma rn ftz? sat? relu? type=HALF",
            "d, a, b, c",
            "$d = @packed<@$type, $flag_sat, $flag_relu>(@fma_op(), $a, $b, $c)",
        ),
        ("sad type=INT", "d, a, b, c", "$d = @absolute_difference<@$type>($a, $b) + $c"),
        ("op=div|rem type=INT", "d, a, b", "$d = @$op<@$type>($a, $b)"),
        (
            "div round=approx|full|ROUND ftz? type=FLOAT",
            "d, a, b",
            "$d = @rounded<@$type, @$round, $flag_ftz>(@div_op(), $a, $b)",
        ),
        ("op=abs|neg type=s16|s32|s64", "d, a", "$d = @${op}_op()((@$type)$a)"),
        ("op=abs|neg ftz? type=FLOAT|HALF", "d, a", "$d = @sign<@$type, $flag_ftz, $flag_neg>($a)"),
        ("op=min|max relu? type=INT", "d, a, b", "$d = @extreme<@$type, $flag_max, $flag_relu>($a, $b)"),
        (
            "op=min|max ftz? nan=NaN? type=FLOAT",
            "d, a, b",
            "$d = @rounded<@$type, @rn, $flag_ftz>(@extreme_op<$flag_max, $flag_NaN>(), $a, $b)",
        ),
        (
            "op=min|max ftz? nan=NaN? type=HALF",
            "d, a, b",
            "$d = @packed<@$type>(@extreme_op<$flag_max, $flag_NaN>(), $a, $b)",
        ),
        (
            "op=rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh approx ftz? type=FLOAT",
            "d, a",
            "$d = @rounded<@$type, @rn, $flag_ftz>(@${op}_op(), $a)",
        ),
        ("op=ex2|tanh approx ftz? type=HALF", "d, a", "$d = @packed<@$type>(@${op}_op(), $a)"),
        (
            "op=rcp|sqrt round=ROUND ftz? type=FLOAT",
            "d, a",
            "$d = @rounded<@$type, @$round, $flag_ftz>(@${op}_op(), $a)",
        ),
        ("popc type=b32|b64", "d, a", "$d = __builtin_popcountll((@$type)$a)"),
        ("clz type=b32|b64", "d, a", "$d = @leading_zeros<@$type>($a)"),
        ("bfind shiftamt? type=u32|s32|u64|s64", "d, a", "$d = @leading_bit<@$type, $flag_shiftamt>($a)"),
        ("brev type=b32|b64", "d, a", "$d = @reversed<@$type>($a)"),
        ("bfe type=u32|s32|u64|s64", "d, a, b, c", "$d = @extract_field<@$type>($a, $b, $c)"),
        ("bfi type=b32|b64", "d, a, b, c, e", "$d = @insert_field<@$type>($a, $b, $c, $e)"),
        ("bmsk mode=clamp|wrap b32", "d, a, b", "$d = @bit_mask($a, $b, $flag_wrap)"),
        ("dp4a at=u32|s32 bt=u32|s32", "d, a, b, c", "$d = @dot<8, @$at, @$bt>($a, $b, $c)"),
        (
            "dp2a part=lo|hi at=u32|s32 bt=u32|s32",
            "d, a, b, c",
            "$d = @dot<16, @$at, @$bt>($a, (uint32_t)$b >> ($flag_hi ? 16 : 0), $c)",
        ),
        (
            "op=vadd4|vsub4|vmin4|vmax4|vabsdiff4 dt=u32|s32 at=u32|s32 bt=u32|s32 sat? add?",
            "d, a, b, c",
            "$d = @four_bytes<@$dt, @$at, @$bt, $flag_sat, $flag_add>(@${op}_op(), $a, $b, $c)",
        ),
        ("op=and|or|xor type=BITS|pred", "d, a, b", "$d = @${op}_op()((@$type)$a, (@$type)$b)"),
        ("not type=BITS", "d, a", "$d = ~(@$type)$a"),
        ("not pred", "d, a", "$d = !$a"),
        ("cnot type=BITS", "d, a", "$d = (@$type)$a == 0"),
        ("shl type=BITS", "d, a, b", "$d = @shift_left<@$type>($a, $b)"),
        ("shr type=BITS|INT", "d, a, b", "$d = @shift_right<@$type>($a, $b)"),
        (
            "shf side=l|r mode=clamp|wrap b32",
            "d, a, b, c",
            "$d = @funnel_shift<$flag_l>($a, $b, @distance($c, $flag_wrap))",
        ),
        ("lop3 b32", "d, a, b, c, e", "$d = smemkit::lop3($a, $b, $c, $e)"),
        ("prmt b32", "d, a, b, c", "$d = __byte_perm($a, $b, $c)"),
        ("prmt b32 mode=f4e|b4e|rc8|ecl|ecr|rc16", "d, a, b, c", "$d = __byte_perm($a, $b, @select_$mode($c))"),
        ("selp type=ANY", "d, a, b, c", "$d = $c ? $a : $b"),
        ("slct ftz? type=ANY by=s32|f32", "d, a, b, c", "$d = @value<@$by>($c) >= 0 ? $a : $b"),
        ("setp op=COMPARISON ftz? type=ANY|f16|bf16", "d|q, a, b", "@setp($d, $q, @compare_$op<@$type>($a, $b))"),
        (
            "setp op=COMPARISON with=and|or|xor ftz? type=ANY|f16|bf16",
            "d|q, a, b, c",
            "@setp($d, $q, @compare_$op<@$type>($a, $b), @${with}_op(), $c)",
        ),
        (
            "set op=COMPARISON ftz? to=u32|s32|f32 type=ANY|f16|bf16",
            "d, a, b",
            "$d = @set<@$to>(@compare_$op<@$type>($a, $b))",
        ),
        (
            "testp what=finite|infinite|number|notanumber|normal|subnormal type=FLOAT",
            "d, a",
            "$d = @is_$what(@value<@$type>($a))",
        ),
        ("copysign type=FLOAT", "d, a, b", "$d = @to_bits(std::copysign(@value<@$type>($b), @value<@$type>($a)))"),
    ],
    "convert": [
        (
            "cvt near=rn|rz|rm|rp|rni|rzi|rmi|rpi? ftz? sat? to=MEMORY|f16|bf16 from=MEMORY|f16|bf16",
            "d, a",
            "$d = @convert<@$to, @$from, @to_$near, $flag_sat, $flag_ftz>($a)",
        ),
        ("cvt near=rn|rz|rna relu? satfinite? tf32 f32", "d, a", "$d = @to_tf32<@to_$near, $flag_relu>($a)"),
        (
            "cvt near=rn|rz relu? satfinite? to=f16|bf16 f32",
            "d, a",
            "$d = @narrowed<@$to, @to_$near, $flag_relu, $flag_satfinite>($a)",
        ),
        (
            "cvt near=rn|rz relu? satfinite? to=f16x2|bf16x2 f32",
            "d, a, b",
            "$d = @narrowed_pair<@$to, @to_$near, $flag_relu, $flag_satfinite>($a, $b)",
        ),
        (
            "cvt rn satfinite relu? to=e4m3x2|e5m2x2 f32",
            "d, a, b",
            "$d = @to_bytes<@$to, $flag_relu>(@value<@f32>($a), @value<@f32>($b))",
        ),
        (
            "cvt rn satfinite relu? to=e4m3x2|e5m2x2 f16x2",
            "d, a",
            "$d = @to_bytes<@$to, $flag_relu>(@value<@f16>($a >> 16), @value<@f16>($a))",
        ),
        ("cvt rn relu? f16x2 from=e4m3x2|e5m2x2", "d, a", "$d = @from_bytes<@$from, $flag_relu>($a)"),
        ("cvt pack sat to=s8|u8|s16|u16 s32", "d, a, b", "$d = @packed_integers<@$to>($a, $b, 0)"),
        ("cvt pack sat to=s8|u8|s16|u16 s32 b32", "d, a, b, c", "$d = @packed_integers<@$to>($a, $b, $c)"),
    ],
    "memory": [
        (
            "op=ld|ldu order=weak|volatile? space=REMOTE? CACHE? nc? HINT* type=MEMORY",
            "d, [a], e?0",
            "$d = @load<@$type, $flag_volatile, $flag_nc>($a)",
        ),
        (
            "op=ld|ldu order=weak|volatile? space=REMOTE? CACHE? nc? HINT* v2|v4|v8 type=MEMORY",
            "{d}, [a], e?0",
            "@load_vector<@$type, $flag_nc>($a, $d)",
        ),
        (
            "ld order=relaxed|acquire SCOPE space=REMOTE? HINT* type=MEMORY",
            "d, [a], e?0",
            "$d = @load_atomic<@$type>($a, @$order)",
        ),
        (
            "st order=weak|volatile? space=REMOTE? CACHE? HINT* type=MEMORY",
            "[a], b, e?0",
            "@store<@$type>($a, $b)",
        ),
        (
            "st order=weak|volatile? space=REMOTE? CACHE? HINT* v2|v4|v8 type=MEMORY",
            "[a], {b}, e?0",
            "@store_vector<@$type>($a, $b)",
        ),
        (
            "st order=relaxed|release SCOPE space=REMOTE? HINT* type=MEMORY",
            "[a], b, e?0",
            "@store_atomic<@$type>($a, $b, @$order)",
        ),
        (
            "atom order=ORDER? SCOPE? space=REMOTE? op=ATOMIC HINT* type=ANY",
            "d, [a], b, e?0",
            "$d = @atomic<@$type>($a, @${op}_op(), $b, @$order)",
        ),
        (
            "atom order=ORDER? SCOPE? space=REMOTE? cas HINT* type=BITS",
            "d, [a], b, c, e?0",
            "$d = @compare_and_swap<@$type>($a, $b, $c, @$order)",
        ),
        (
            "red order=ORDER? SCOPE? space=REMOTE? op=ATOMIC HINT* type=ANY",
            "[a], b, e?0",
            "@atomic<@$type>($a, @${op}_op(), $b, @$order)",
        ),
        (
            "atom order=ORDER? SCOPE? space=REMOTE? add noftz HINT* type=HALF",
            "d, [a], b, e?0",
            "$d = @atomic_packed<@$type>($a, $b, @$order)",
        ),
        (
            "red order=ORDER? SCOPE? space=REMOTE? add noftz HINT* type=HALF",
            "[a], b, e?0",
            "@atomic_packed<@$type>($a, $b, @$order)",
        ),
        ("membar cta", "", "smemkit::fence(1)"),
        ("membar gl", "", "smemkit::fence(2)"),
        ("membar sys", "", "smemkit::fence(3)"),
        ("fence sc|acq_rel|acquire|release cta", "", "smemkit::fence(1)"),
        ("fence sc|acq_rel|acquire|release cluster|gpu", "", "smemkit::fence(2)"),
        ("fence sc|acq_rel|acquire|release sys", "", "smemkit::fence(3)"),
        ("op=prefetch|prefetchu space=SPACE? L1|L2|HINT", "[a]", "(void)$a"),
        ("createpolicy fractional HINT HINT? b64", "d, e?0", "$d = 0"),
        ("cvta space=SPACE u32|u64", "d, a", "$d = (uint64_t)@at_$space($a)"),
        ("cvta to space=SPACE u32|u64", "d, a", "$d = @window_of_$space($a)"),
        ("isspacep space=global|shared|shared::cta|local|const", "d, a", "$d = @is_$space($a)"),
        ("isspacep shared::cluster", "d, a", "$d = smemkit_is_cluster_shared(@at_generic($a))"),
        (
            "cp async CACHED SHARED global HINT*",
            "[d:shared], [a], b",
            "@copy_async<$flag_cg, true>($d, $a, $b, $b)",
        ),
        (
            "cp async CACHED SHARED global HINT*",
            "[d:shared], [a], b, c, e?0",
            "@copy_async<$flag_cg, __builtin_constant_p($c)>($d, $a, $b, $c)",
        ),
        ("cp async commit_group", "", "smemkit_async_commit()"),
        ("cp async wait_group", "a", "smemkit_async_wait($a)"),
        ("cp async wait_all", "", "@copy_async_wait_all()"),
    ],
    "warp": [
        (
            "shfl sync mode=up|down|bfly|idx b32",
            "d|p, a, b, c, e",
            "$d = smemkit::ptx_shuffle('$initial_mode', (uint32_t)$a, $b, $c, $e, $p)",
        ),
        ("vote sync? ballot sync? b32", "d, a, e", "$d = __ballot_sync($e, $a)"),
        ("vote sync? mode=all|any sync? pred", "d, a, e", "$d = __${mode}_sync($e, $a)"),
        ("vote sync? uni sync? pred", "d, a, e", "$d = @uniform($e, $a)"),
        ("match any sync type=b32|b64", "d, a, e", "$d = __match_any_sync($e, (@$type)$a)"),
        ("match all sync type=b32|b64", "d|p, a, e", "$d = @match_all<@$type>($e, $a, $p)"),
        ("activemask b32", "d", "$d = __activemask()"),
        (
            "redux sync op=add|min|max|and|or|xor type=u32|s32|b32",
            "d, a, e",
            "$d = __reduce_${op}_sync($e, (@$type)$a)",
        ),
        ("elect sync", "d|p, e", "$d = @elect($e, $p)"),
        (
            "barrier cluster arrive sem=release|relaxed? aligned?",
            "",
            "@cluster_arrive($flag_aligned, !$flag_relaxed)",
        ),
        ("barrier cluster wait sem=acquire? aligned?", "", "@cluster_wait($flag_aligned)"),
        ("mapa shared::cluster type=u32|u64", "d, a, b", "$d = @map_window($a, $b)"),
        ("mapa type=u32|u64", "d, a, b", "$d = @map_address($a, $b)"),
        ("getctarank shared::cluster type=u32|u64", "d, a", "$d = smemkit_cluster_rank_of(@at_shared($a))"),
        ("getctarank type=u32|u64", "d, a", "$d = smemkit_cluster_rank_of(@at_generic($a))"),
        ("op=bar|barrier cta? sync aligned?", "a, b?0", "smemkit::named_barrier((int)$a, (int)$b, true)"),
        ("op=bar|barrier cta? arrive aligned?", "a, b", "smemkit::named_barrier((int)$a, (int)$b, false)"),
        ("op=bar|barrier cta? red popc aligned? u32", "d, a, c", "$d = @barrier_count($a, $c)"),
        ("op=bar|barrier cta? red and aligned? pred", "d, a, c", "$d = @barrier_count($a, !$c) == 0"),
        ("op=bar|barrier cta? red or aligned? pred", "d, a, c", "$d = @barrier_count($a, $c) != 0"),
        ("bar warp sync", "e", "__syncwarp($e)"),
        ("nanosleep u32", "a", "__nanosleep($a)"),
        ("trap", "", "__trap()"),
        ("brkpt", "", "__brkpt()"),
        ("exit", "", "smemkit_exit()"),
        ("pmevent mask?", "a", "(void)$a"),
        ("griddepcontrol launch_dependents", "", "(void)0"),
        ("griddepcontrol wait", "", "cudaGridDependencySynchronize()"),
    ],
    "matrix": [
        (
            "ldmatrix sync aligned count=x1|x2|x4 trans? m8n8 trans? space=SHARED? b16",
            "{d}, [a]",
            "@ldmatrix<$flag_trans, @$count>($d, $a)",
        ),
        (
            "ldmatrix sync aligned m8n8 count=x1|x2|x4 trans? space=SHARED? b16",
            "{d}, [a]",
            "@ldmatrix<$flag_trans, @$count>($d, $a)",
        ),
        (
            "stmatrix sync aligned m8n8 count=x1|x2|x4 trans? space=SHARED? b16",
            "[a], {b}",
            "@stmatrix<$flag_trans, @$count>($a, $b)",
        ),
        (
            "stmatrix sync aligned count=x1|x2|x4 trans? m8n8 trans? space=SHARED? b16",
            "[a], {b}",
            "@stmatrix<$flag_trans, @$count>($a, $b)",
        ),
        ("movmatrix sync aligned m8n8 trans b16", "d, a", "$d = @movmatrix($a)"),
        (
            "mma sync aligned shape=SHAPE al=row|col bl=row|col satfinite? dt=TYPE at=TYPE bt=TYPE ct=TYPE"
            " bit=xor|and? popc?",
            "{d}, {a}, {b}, {c}",
            "@mma<@$shape, @$dt, @$at, @$bt, @$ct, @$al, @$bl, @$bit>($d, $a, $b, $c, $flag_satfinite)",
        ),
    ],
    **ASYNC_FORMS,
}


@cache
def _table() -> dict[str, tuple[Form, ...]]:
    """The forms by the first word of their names."""
    table: dict[str, list[Form]] = {}
    for header, forms in _FORMS.items():
        for name, operands, statement in forms:
            first, *words = name.split()
            key, _, names = first.rpartition("=")
            for base in names.split("|"):
                form = Form(
                    (f"{key}={base}" if key else base, *words),
                    tuple(operand.strip() for operand in operands.split(",") if operand.strip()),
                    statement,
                    header,
                    "uint64_t" if header == "memory" or base == "mma" else "uint32_t",
                )
                table.setdefault(base, []).append(form)
    return {base: tuple(forms) for base, forms in table.items()}


def instruction_names() -> tuple[str, ...]:
    """The first words of the instructions' names.

    Examples
    --------
    >>> "ldmatrix" in instruction_names()
    True
    """
    return tuple(sorted(_table()))


def forms_of(name: str) -> tuple[Form, ...]:
    """The forms of the instructions whose names begin with this word."""
    return _table().get(name, ())
