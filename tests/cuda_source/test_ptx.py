"""Inline PTX as C++: what is read, what becomes of it, and what is refused by name.

What the instructions compute is tested by executor/ptx_*.cu.
"""

import pytest

from smemkit.cuda_source import dialect, errors
from smemkit.cuda_source.ptx_instructions import forms_of
from smemkit.cuda_source.ptx_reader import Block, Declaration, Instruction, Label, Operand, PtxError, read_ptx


def rewritten(source):
    return dialect.rewrite(source, "k.cu").partition('"k.cu"\n')[2]


def refusal(source):
    """The reason in the error pragma that a source gets."""
    _, _, message = rewritten(source).partition(errors.ERROR_PREFIX)
    return message.partition('\\"')[0]


# ---- the reader -------------------------------------------------------------------------------------------------


def test_read_blocks_labels_and_registers():
    block = read_ptx("{ .reg .pred %p<2>, q;\n L%=: @!q bra.uni L%=; } // the end")
    (inner,) = block.items
    assert inner.items == (
        Declaration("pred", ("p0", "p1", "q")),
        Label("L"),
        Instruction(("bra", "uni"), (Operand("name", "L"),), Operand("name", "q", negated=True)),
    )


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("%0", Operand("placeholder", "0")),
        ("%[to]", Operand("placeholder", "to")),
        ("%%laneid", Operand("name", "laneid")),
        ("%%tid.x", Operand("name", "tid.x")),
        ("-5", Operand("number", -5)),
        ("0x1F", Operand("number", 31)),
        ("017", Operand("number", 15)),
        ("0b101", Operand("number", 5)),
        ("7U", Operand("number", 7)),
        ("1.5", Operand("number", 1.5)),
        ("0f3FC00000", Operand("number", 1.5)),
        ("0dBFF8000000000000", Operand("number", -1.5)),
        ("!p", Operand("name", "p", negated=True)),
        ("r|p", Operand("name", "r", second=Operand("name", "p"))),
        ("{a, %1}", Operand("vector", parts=(Operand("name", "a"), Operand("placeholder", "1")))),
        ("[%0+-16]", Operand("address", parts=(Operand("placeholder", "0"), Operand("number", -16)))),
        ("[a-8]", Operand("address", parts=(Operand("name", "a"), Operand("number", -8)))),
    ],
)
def test_read_operands(text, operand):
    assert read_ptx(f"mov.u32 {text};").items[0].operands == (operand,)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("mov.u32 %0, %1", "mov.u32"),  # without its semicolon
        ("mov.u32 %0 %1;", "mov.u32"),
        ("{ membar.cta;", "{"),
        (".shared .b32 x;", ".shared"),
        ("ld.u32 %0, [%1;", "ld.u32"),
        ("?", "?"),
    ],
)
def test_refuse_what_is_no_ptx(text, what):
    with pytest.raises(PtxError) as caught:
        read_ptx(text)
    assert caught.value.what == what


def test_a_block_in_a_block():
    assert read_ptx("{{ trap; }}").items == (Block((Block((Instruction(("trap",), ()),)),)),)


# ---- the forms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("cvt.rn.f16x2.f32", {"near": "rn", "to": "f16x2"}),
        ("cvt.sat.s8.s32", {"to": "s8", "from": "s32", "sat": "sat"}),
        ("ld.global.nc.L1::no_allocate.L2::128B.v4.f32", {"space": "global", "type": "f32"}),
        ("shf.r.wrap.b32", {"side": "r", "mode": "wrap"}),
        ("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16", {"count": "x2", "trans": "trans"}),
        ("stmatrix.sync.aligned.x2.m8n8.shared.b16", {"count": "x2"}),
    ],
)
def test_forms_match(name, chosen):
    words = tuple(name.split("."))
    matches = [match for form in forms_of(words[0]) if (match := form.match(words)) is not None]
    assert matches and chosen.items() <= matches[0].items()


@pytest.mark.parametrize(
    "name", ["add.f32.rn", "ld.global.ca.cg.u32", "mma.sync.aligned.m16n8k16", "shfl.sync.b32"]
)
def test_forms_do_not_match(name):
    words = tuple(name.split("."))
    assert all(form.match(words) is None for form in forms_of(words[0]))


# ---- the C++ ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ptx", "calls"),
    [
        ('asm volatile("bar.sync 1, 64;");', ["((int)1, (int)64, true)"]),
        ('asm("bar.sync 0;" ::: "memory");', ["((int)0, (int)0, true)"]),
        ('asm volatile ("barrier.cta.sync.aligned %0;" :: "r"(f(a, b)));', ["((int)smemkit_0, (int)0, true)"]),
        (
            '__asm__ __volatile__("bar.arrive %0, %1;" : : "r"(x), "n"(32));',
            ["((int)smemkit_0, (int)smemkit_1, false)"],
        ),
        (
            'asm("bar.arrive 1, 64;\\n\\t" "bar.sync 0x2, 64;\\n");',
            ["((int)1, (int)64, false)", "((int)2, (int)64, true)"],
        ),
    ],
)
def test_statements_become_calls(ptx, calls):
    text = rewritten(ptx)
    assert text.endswith("while (0);")
    assert " ".join(f"smemkit::named_barrier{call};" for call in calls) in text


def test_operands_are_evaluated_once_and_tied():
    text = rewritten('asm("add.u32 %0, %1, %2;" : "=r"(x[i++]) : "0"(f()), "n"(2));')
    assert text.count("x[i++]") == 1 and text.count("f()") == 1
    assert "smemkit_0 = smemkit_1;" in text


def test_operands_need_no_commas_between_them():
    with_comma = rewritten('asm("st.global.u32 [%1], %0;" :: "r"(f(a, b)), [to] "l"(to));')
    assert rewritten('asm("st.global.u32 [%1], %0;" :: "r"(f(a, b)) [to] "l"(to));') == with_comma


def test_headers_of_the_instructions_used():
    assert "smemkit/ptx" not in dialect.rewrite("int f() { return 1; }", "k.cu")
    source = 'asm("mov.u32 %0, 1;" : "=r"(x)); asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x));'
    included = [line for line in dialect.rewrite(source, "k.cu").splitlines() if "smemkit/ptx/" in line]
    assert included == [f"#include <smemkit/ptx/{name}.h>" for name in ("arithmetic", "matrix", "registers")]
    alone = dialect.rewrite('int f(int x) { asm volatile("" : "+r"(x)); return x; }', "k.cu")
    assert "#include <smemkit/ptx/registers.h>" in alone.splitlines()


# ---- macros -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "macros",
    [
        '#define RUN(op) asm(op ".u32 %0, %0, 1;" : "+r"(x))\n',
        '#define RUN(op) asm(NAME(op) " %0, %0, 1;" : "+r"(x))\n#define NAME(op) op ".u32"\n',
        '#define RUN(op) asm("" op ONE : "+r"(x))\n#define ONE ".u32 %0, %0, 1;"\n',
        '#define INNER(op, ...) asm(op ".u32 %0, %0, 1;" : __VA_ARGS__)\n#define RUN(op) INNER(op, "+r"(x))\n',
        "#define RUN(op) EACH(ADD, op)\n#define EACH(m, op) m(op)\n"
        '#define ADD(op) asm(op ".u32 %0, %0, 1;" : "+r"(x))\n',
    ],
)
def test_macros_that_expand_to_text(macros):
    text = rewritten(f'{macros}void f() {{ RUN("add"); }}\n')
    assert "smemkit::ptx_add_op" in text.splitlines()[-1]
    assert text.count("\n") == macros.count("\n") + 1


def test_arguments_as_literals():
    source = '#define RUN(op, n) asm(#op "." "u" #n " %0, %0, 1;" : "+r"(x))\nRUN(add, 32);\n'
    assert "smemkit::ptx_u32" in rewritten(source).splitlines()[-1]


def test_macros_of_the_compiler_stay():
    source = (
        '#define TWICE(x) ((x) + (x))\n#define FENCE() asm volatile("membar.gl;" ::: "memory")\nTWICE(1); FENCE();'
    )
    assert rewritten(source).splitlines()[-1] == "TWICE(1); FENCE();"


def test_comments_between_literals():
    text = rewritten('asm("mov.u32 " // to\n "%0, 1;" /* from "x" */ : "=r"(x));')
    assert "smemkit_0 = 1;" in text and text.endswith("while (0)\n;")


def test_lines_stay():
    source = '#define B(i) asm("bar.sync %0;" \\\n  :: "r"(i))\nint f() { asm("bar.sync\\t0;"\n);\n}\n'
    text = rewritten(source)
    assert text.count("\n") == source.count("\n")
    assert text.splitlines()[0].endswith("\\")
    assert rewritten('asm("" ::: "memory");') == 'asm("" ::: "memory");'


# ---- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('asm("tcgen05.fence::before_thread_sync;");', "inline PTX `tcgen05.fence::before_thread_sync`"),
        ('asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(x));', "inline PTX `mov.u32` of dynamic_smem_size"),
        ('asm("mov.u32 %0, %2;" : "=r"(x) : "r"(1));', "the operand %2, which the statement lacks"),
        ('asm("mov.u32 %0, %1;" : "=x"(x) : "r"(1));', "the constraint  =x "),
        ('asm("@p trap;");', "inline PTX `trap` no predicate p"),
        ('asm("add.u32 %0, %0;" : "+r"(x));', "inline PTX `add.u32`"),
        ('asm("mov.u32 %0, 1" : "=r"(x));', "inline PTX `mov.u32` expected ;"),
        ('asm(UNKNOWN "mov.u32 %0, 1;" : "=r"(x));', "`UNKNOWN` a macro that is not defined"),
        (
            'asm("mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0}, {%0}, {%0}, {%0}, %0, 0;" :);',
            "inline PTX `mma.sp.sync.aligned.m16n8k16",
        ),
        ('asm("L: trap; L: trap;");', "`L` a label at two positions"),
    ],
)
def test_refusals(source, message):
    assert message in refusal(source)
