"""Bulk copies and the transactions of mbarriers, in each spelling: numbers, and what the checker says."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tiers import times
from together import Variants, compile_errors, together

import smemkit

pytestmark = pytest.mark.usefixtures("compiled_when_used")

COMMON = Path(__file__).resolve().parents[2] / "kernels" / "common"

DOUBLED = """
#include <cuda/barrier>
#include <cuda/ptx>
#include "ptx/cp_async_bulk.cuh"
#include "ptx/mbarrier.cuh"
using barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void doubled(const float *x, float *y)
{
    __shared__ alignas(128) float s[64];
    %s
    const unsigned to = (unsigned)__cvta_generic_to_shared(s);
    const int t = threadIdx.x;
    if (t == 0)
        %s;
    __syncthreads();
    for (int row = 0; row < 3; row++) {
        if (t == 0) { %s }
        %s
        s[t] *= 2;
        %s
        __syncthreads();
        if (t == 0) { %s }
        __syncthreads();
    }
}
"""
SPELLINGS = {
    "inline": (
        "__shared__ uint64_t b; const unsigned full = (unsigned)__cvta_generic_to_shared(&b);",
        'asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(full))',
        'asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%1], 256;\\n"'
        '"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "'
        '"[%0], [%2], 256, [%1], %3;"'
        ':: "r"(to), "r"(full), "l"(x + row * 64), "l"(0ll) : "memory");',
        'asm volatile("{.reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;'
        ' @P1 bra DONE; bra LAB_WAIT; DONE: }" :: "r"(full), "r"(row & 1));',
        'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
        'asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; cp.async.bulk.commit_group;'
        ' cp.async.bulk.wait_group.read 0;" :: "l"(y + row * 64), "r"(to), "r"(256) : "memory");',
    ),
    "ours": (
        "__shared__ uint64_t b;",
        "ptx::mbarrier_init(&b, 1)",
        "ptx::mbarrier_arrive_expect_tx(&b, 256); ptx::cp_async_bulk_load(s, x + row * 64, 256, &b);",
        "while (!ptx::mbarrier_test_wait_parity(&b, row & 1)) {}",
        "ptx::fence_proxy_async();",
        "ptx::cp_async_bulk_store(y + row * 64, s, 256); ptx::cp_async_bulk_commit_group(); "
        "ptx::cp_async_bulk_wait_group_read<0>();",
    ),
    "cuda::ptx": (
        "__shared__ uint64_t b;",
        "cuda::ptx::mbarrier_init(&b, 1)",
        "cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, s, x + row * 64, 256, &b); "
        "cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta, "
        "cuda::ptx::space_shared, &b, 256);",
        "while (!cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cta, &b, row & 1))"
        " {}",
        "cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);",
        "cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, y + row * 64, s, 256); "
        "cuda::ptx::cp_async_bulk_commit_group(); "
        "cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());",
    ),
    "cuda::barrier": (
        "__shared__ barrier b;",
        "init(&b, 64)",
        "cuda::device::memcpy_async_tx(s, x + row * 64, cuda::aligned_size_t<16>(256), b); ",
        "auto token = t ? b.arrive() : cuda::device::barrier_arrive_tx(b, 1, 256); b.wait(token);",
        "cuda::device::experimental::fence_proxy_async_shared_cta();",
        "cuda::device::experimental::cp_async_bulk_shared_to_global(y + row * 64, s, 256); "
        "cuda::device::experimental::cp_async_bulk_commit_group(); "
        "cuda::device::experimental::cp_async_bulk_wait_group_read<0>();",
    ),
}


def kernel(source):
    with smemkit.Device("cpu"):
        return smemkit.Kernel(source, options=[f"-I{COMMON}"])


@cache
def doubled():
    return kernel(together("doubled", [DOUBLED % spelling for spelling in SPELLINGS.values()]))


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.covering(most=3)
def test_rows_are_loaded_and_stored(spelling):
    x, y = np.random.default_rng(1).random(192, np.float32), np.zeros(192, np.float32)
    launch = doubled()[f"doubled{list(SPELLINGS).index(spelling)}"][1, 64]
    launch(x, y)
    assert_array_equal(y, 2 * x)
    for options in ({}, {"completion": "random", "seed": 3}, {"schedule": "random", "seed": 1}):
        report = smemkit.check(launch, x, y, **options)
        assert not report.faults, report


REDUCED = """
#include "ptx/cp_async_bulk.cuh"
#include <cuda_fp16.h>
__global__ void reduced(const T *x, T *y)
{
    __shared__ alignas(16) T s[64];
    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    ptx::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned from = (unsigned)__cvta_generic_to_shared(s);
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.OP [%0], [%1], %2;"
                     :: "l"(y), "r"(from), "n"(64 * sizeof(T)) : "memory");
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group<0>();
    }
}
"""


REDUCTIONS = {
    "add.s32": ("int", np.int32, np.add),
    "max.s32": ("int", np.int32, np.maximum),
    "xor.b32": ("unsigned", np.uint32, np.bitwise_xor),
    "min.u64": ("unsigned long long", np.uint64, np.minimum),
    "add.f32": ("float", np.float32, np.add),
    "add.noftz.f16": ("__half", np.float16, np.add),
}


@cache
def reductions():
    texts = [re.sub(r"\bT\b", type_, REDUCED).replace("OP", name) for name, (type_, *_) in REDUCTIONS.items()]
    return kernel(together("reduced", texts))


@pytest.mark.parametrize("operation", REDUCTIONS)
def test_reductions(operation):
    _, dtype, combined = REDUCTIONS[operation]
    x = np.random.default_rng(2).integers(0, 100, 4 * 64).astype(dtype)
    y = np.random.default_rng(3).integers(0, 100, 64).astype(dtype)
    want = combined.reduce([y, *x.reshape(4, 64)])
    launch = reductions()[f"reduced{list(REDUCTIONS).index(operation)}"][4, 64]
    report = smemkit.check(launch, x, y)
    assert not report.faults, report
    launch(x, y)
    assert_array_equal(y, want)


@pytest.mark.parametrize("operation", ["add.s32", "add.f32", "add.noftz.f16"])
def test_reductions_of_many_blocks_are_atomic(operation):
    _, dtype, _ = REDUCTIONS[operation]
    launch = reductions()[f"reduced{list(REDUCTIONS).index(operation)}"][1024, 64]
    for _ in range(20):
        y = np.zeros(64, dtype)
        launch(np.ones(1024 * 64, dtype), y)
        assert_array_equal(y, np.full(64, 1024, dtype))


ONE = """
#include "ptx/cp_async_bulk.cuh"
#include "ptx/mbarrier.cuh"
__global__ void one(const float *x, float *y)
{
    __shared__ alignas(128) float s[256];
    __shared__ uint64_t full;
    const int t = threadIdx.x;
    if (t == 0)
        ptx::mbarrier_init(&full, 1);
    __syncthreads();
    %s
}
"""
LOAD = "if (t == 0) { ptx::mbarrier_arrive_expect_tx(&full, 256); ptx::cp_async_bulk_load(s, x, 256, &full); }"
WAIT = "while (!ptx::mbarrier_test_wait_parity(&full, %d)) {}"


VARIANTS = Variants("one", options=[f"-I{COMMON}"])


def add(*bodies):
    """Has kernels with these bodies compiled with the others of this file. Returns the bodies."""
    for body in bodies:
        VARIANTS.add(ONE % body)
    return bodies if len(bodies) > 1 else bodies[0]


def check(body, **options):
    """The report on a kernel with this body."""
    x = np.ones(256, np.float32)
    return smemkit.check(VARIANTS[ONE % body][1, 64], x, x.copy(), **options)


def kinds(report):
    return {fault.kind for fault in report.faults}


RULES = [
    ("ptx::cp_async_bulk_load(s, x, 250, &full);", "misaligned", "of 250 bytes, not a multiple of 16"),
    ("ptx::cp_async_bulk_load(s + 1, x, 256, &full);", "misaligned", "to an address that is not a multiple"),
    ("ptx::cp_async_bulk_store(y + 2, s, 256);", "misaligned", "to an address that is not a multiple of 16"),
    ("ptx::cp_async_bulk_load(s, x + 3, 256, &full);", "misaligned", "from an address that is not a multiple"),
    (
        "ptx::cp_async_bulk_load(s, x + 240, 256, &full);",
        "out_of_bounds",
        "x[64], and x has 64 elements of 16 bytes",
    ),
    ("ptx::cp_async_bulk_load(s, nullptr, 256, &full);", "out_of_bounds", "from a null pointer"),
    ("ptx::cp_async_bulk_store(nullptr, s, 256);", "out_of_bounds", "to a null pointer"),
    ("ptx::cp_async_bulk_load(s, s, 256, &full);", "trap", "where the instruction needs global memory"),
    ("ptx::cp_async_bulk_load(s, x, 256, (uint64_t *)s);", "barrier", "mbarrier that is not initialised"),
    ("ptx::mbarrier_expect_tx(&full, 1 << 20);", "barrier", "at most 1048575 bytes"),
    ('asm volatile("cp.async.bulk.prefetch.L2.global [%0], 24;" :: "l"(x));', "misaligned", "24 bytes"),
]


RULES = [(add(f"if (t == 0) {{ {statement} }}"), kind, message) for statement, kind, message in RULES]


@pytest.mark.parametrize(("body", "kind", "message"), RULES)
def test_rules_of_the_instruction(body, kind, message):
    report = check(body)
    assert kinds(report) - {"leak"} == {kind}, report
    assert message in report.faults[0].message.replace("\n", " "), report


WAIT_OF_ANOTHER_PHASE = add(f"{LOAD} if (t == 1) {{ {WAIT % 1} y[0] = s[0]; }}")


@pytest.mark.parametrize(("completion", "found"), [("early", {"hang"}), ("late", {"race"})])
def test_wait_of_another_phase_does_not_show_the_bytes(completion, found):
    """The phase before the first one is complete; the one after the bytes' never."""
    report = check(WAIT_OF_ANOTHER_PHASE, completion=completion)
    assert kinds(report) == found


ONE_WAITS = LOAD + "if (t == 0) { %s } " % (WAIT % 0)
READS = add(ONE_WAITS + "y[t] = s[t];", ONE_WAITS + "__syncthreads(); y[t] = s[t];")


def test_waits_are_of_the_thread_that_reads():
    wrong, right = READS
    assert kinds(check(wrong)) == {"race"}
    assert not kinds(check(right))


BYTES_BEFORE_EXPECTED = add(
    "if (t == 0) { ptx::cp_async_bulk_load(s, x, 512, &full); ptx::mbarrier_expect_tx(&full, 512); "
    f"ptx::mbarrier_arrive(&full); }} {WAIT % 0} y[t] = s[t];"
)


def test_bytes_may_come_before_they_are_expected():
    for completion in ("early", "late"):
        report = check(BYTES_BEFORE_EXPECTED, completion=completion)
        assert not report.faults, report


EXPECTING = {
    number: add(LOAD.replace("(&full, 256)", f"(&full, {number})", 1) + WAIT % 0) for number in (512, 128)
}


@pytest.mark.parametrize(
    ("expected", "numbers"),
    [(512, "0 of 1 arrivals and 256 of 512 bytes"), (128, "and has received 256 bytes where 128 are expected")],
)
def test_hang_names_the_bytes(expected, numbers, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "2")
    report = check(EXPECTING[expected], completion="late")
    assert kinds(report) == {"hang"}
    assert numbers in report.faults[0].message


WITHOUT_WAIT = add(
    LOAD,
    "s[t] = 1; ptx::fence_proxy_async(); __syncthreads(); if (t == 0) "
    "{ ptx::cp_async_bulk_store(y, s, 256); ptx::cp_async_bulk_commit_group(); }",
)


def test_copies_that_no_thread_waits_for_are_reported():
    for body in WITHOUT_WAIT:
        for completion in ("early", "late"):
            report = check(body, completion=completion)
            assert kinds(report) == {"leak"}, report
            assert report.ok


STORE = "ptx::cp_async_bulk_store(y, s, 256); ptx::cp_async_bulk_commit_group(); "
STORE += "ptx::cp_async_bulk_wait_group_read<0>();"
FENCES_OF_A_STORE = add(
    f"s[t] = 1; __syncthreads(); if (t == 0) {{ ptx::fence_proxy_async(); {STORE} }}",
    f"s[t] = 1; __syncthreads(); if (t == 0) {{ {STORE} }}",
    f"s[t] = 1; __syncthreads(); if (t) ptx::fence_proxy_async(); if (t == 0) {{ {STORE} }}",
)


def test_fence_of_the_reading_thread_alone_is_doubtful():
    doubtful, none, late = FENCES_OF_A_STORE
    report = check(doubtful)
    (fault,) = report.faults
    assert (fault.kind, fault.hazard, fault.severity) == ("race", "proxy", "warning")
    assert "it has executed the fence, but the writer has not" in fault.message
    assert report.ok
    report = check(none)
    (fault,) = report.faults
    assert (fault.hazard, fault.severity, fault.rule) == ("proxy", "error", "race-proxy")
    assert not check(late).ok  # after the barrier that hands over


GROUP = (
    "s[t] = 1; ptx::fence_proxy_async(); __syncthreads(); if (t == 0) { ptx::cp_async_bulk_store(y, s, 256); "
    "ptx::cp_async_bulk_commit_group(); %s } %s __syncthreads(); s[t] = 2;"
)
WAIT_FOR_GROUPS = "ptx::cp_async_bulk_wait_group_read<0>();"
GROUPS = add(GROUP % (WAIT_FOR_GROUPS, ""), GROUP % ("", f"if (t == 1) {WAIT_FOR_GROUPS}"))


def test_wait_for_groups_is_of_the_thread_that_started_them():
    right, wrong = GROUPS
    assert not check(right).faults
    assert "race" in kinds(check(wrong))


INITIALIZED_AGAIN = add(
    "if (t == 0) { ptx::mbarrier_expect_tx(&full, 64); ptx::mbarrier_inval(&full); } __syncthreads(); "
    "if (t == 0) ptx::mbarrier_init(&full, 1); __syncthreads(); "
    "if (t == 0) ptx::mbarrier_arrive(&full); " + WAIT % 0
)


def test_an_mbarrier_that_is_initialized_again_awaits_no_bytes():
    assert not check(INITIALIZED_AGAIN).faults


COPY_OVER_A_COPY = add(
    LOAD + "__syncthreads(); if (t == 32) asm volatile("
    '"cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group; cp.async.wait_group 0;"'
    ' :: "r"((unsigned)__cvta_generic_to_shared(s)), "l"(x) : "memory"); ' + WAIT % 0
)


def test_an_asynchronous_copy_over_an_unfinished_bulk_copy_is_reported():
    report = check(COPY_OVER_A_COPY, completion="late")
    assert ("race", "WAW") in {(fault.kind, fault.hazard) for fault in report.faults}, report


INSIDE = (
    "s[t] = x[t]; ptx::fence_proxy_async(); __syncthreads(); if (t == 0) { "
    "ptx::mbarrier_arrive_expect_tx(&full, 256); asm volatile("
    '"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%%0], [%%1], 256, [%%2];" :: '
    '"r"((unsigned)__cvta_generic_to_shared(s + 64)), "r"((unsigned)__cvta_generic_to_shared(s)), '
    '"r"((unsigned)__cvta_generic_to_shared(&full)) : "memory"); } %s y[t] = s[t + 64];'
)
COPIES_INSIDE = add(INSIDE % (WAIT % 0), INSIDE % "__syncthreads();")


def test_copies_inside_shared_memory():
    right, wrong = COPIES_INSIDE
    assert not check(right).faults
    assert "race" in kinds(check(wrong))
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    kernel(ONE % right)[1, 64](x, y)
    assert_array_equal(y[:64], x[:64])


POISONED_BOUND = add(
    LOAD + "const unsigned n = ((const unsigned *)x)[4096]; "
    "for (unsigned i = 0; i < n; i++) __syncthreads(); " + WAIT % 0
)


def test_a_block_that_a_poisoned_bound_ends_has_no_leak():
    assert kinds(check(POISONED_BOUND)) == {"out_of_bounds"}


ATOMICS = (
    f"s[t] = 0; %s __syncthreads(); atomicAdd(&s[t / 2], 1.0f); %s __syncthreads(); if (t == 0) {{ {STORE} }}"
)
FENCE = "ptx::fence_proxy_async();"
FENCES_OF_ATOMICS = add(*(ATOMICS % fences for fences in ((FENCE, ""), (FENCE, FENCE), ("", FENCE))))


def test_atomics_before_a_store_need_the_fence():
    before, both, after = FENCES_OF_ATOMICS
    (fault,) = check(before).faults
    assert (fault.kind, fault.hazard, fault.severity) == ("race", "proxy", "error")
    assert "atomic" in fault.message
    assert not check(both).faults
    assert not check(after).faults


def stored_after(fence):
    text = f's[t] = 1; asm volatile("fence.proxy.async{fence};" ::: "memory"); __syncthreads(); '
    return add(text + f"if (t == 0) {{ {STORE} }}")


FENCES = {"": True, ".shared::cta": True, ".shared::cluster": True, ".global": False}
STORED = {fence: stored_after(fence) for fence in FENCES}


@pytest.mark.parametrize(("fence", "right"), FENCES.items())
def test_a_fence_covers_its_space(fence, right):
    report = check(STORED[fence])
    assert (not report.faults) if right else {fault.hazard for fault in report.faults} == {"proxy"}, report


def loaded_after(fence):
    text = f'((float *)x)[t] = 1; asm volatile("fence.proxy.async{fence};" ::: "memory"); __syncthreads(); '
    return add(text + f"{LOAD} {WAIT % 0} y[t] = s[t];")


LOADED = {fence: loaded_after(fence) for fence in ("", ".global", ".shared::cta")}


@pytest.mark.parametrize("fence", LOADED)
def test_a_fence_for_global_memory_is_for_loads(fence):
    report = check(LOADED[fence])
    assert {fault.hazard for fault in report.faults} == ({"proxy"} if "shared" in fence else set()), report


INIT_LINE = (COMMON / "ptx" / "mbarrier.cuh").read_text().partition("mbarrier.init")[0].count("\n") + 1


USES = [
    "ptx::mbarrier_expect_tx(&full, 16);",
    'asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 16;" :: "r"(at));',
    "ptx::cp_async_bulk_load(s, x, 256, &full);",
]


def use_text(use, ordered):
    text = ONE.replace("__syncthreads();\n", "__syncthreads();\n" if ordered else "\n", 1)
    text = text.replace(
        "const int t", "const unsigned at = (unsigned)__cvta_generic_to_shared(&full); const int t"
    )
    return text % f"if (t == 32) {{ {use} }}"


for use in USES:
    for ordered in (False, True):
        VARIANTS.add(use_text(use, ordered))


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("ordered", [False, True])
def test_bytes_are_a_use_of_the_mbarrier(use, ordered):
    x = np.ones(256, np.float32)
    report = smemkit.check(VARIANTS[use_text(use, ordered)][1, 64], x, x.copy())
    races = [fault for fault in report.faults if fault.kind == "race"]
    assert bool(races) != ordered, report
    for race in races:
        assert INIT_LINE in (race.line, race.other_line), report


def exchange(arrive, acquires=True, parity=0):
    """Thread 32 reads what thread 0 has written before `arrive`."""
    return f"""
    if (t == 0) {{ s[0] = 1; {arrive} }}
    if (t == 32) {{ {WAIT % parity if acquires else "__nanosleep(0);"} y[0] = s[0]; }}
    """


ARRIVE = "ptx::mbarrier_arrive(&full);"
ARRIVES_AND_WAITS = add(exchange(ARRIVE))
# thread 32 arrives after thread 0, and reads with a wait or without
BOTH_ARRIVE = {
    wait: VARIANTS.add(
        ONE.replace("mbarrier_init(&full, 1)", "mbarrier_init(&full, 2)")
        % f"if (t == 0) {{ s[0] = 1; {ARRIVE} }} if (t == 32) {{ {ARRIVE} {wait} y[0] = s[0]; }}"
    )
    for wait in ("", WAIT % 0)
}


def test_arrivals_release_and_do_not_acquire():
    assert not check(ARRIVES_AND_WAITS).faults
    x = np.ones(256, np.float32)
    for wait, text in BOTH_ARRIVE.items():
        report = smemkit.check(VARIANTS[text][1, 64], x, x.copy())
        assert kinds(report) == (set() if wait else {"race"}), report


ARRIVALS = {
    "arrive.shared::cta.b64 _, [%0]": True,
    "arrive.release.cta.shared::cta.b64 _, [%0]": True,
    "arrive.relaxed.cta.shared::cta.b64 _, [%0]": False,
    "arrive_drop.relaxed.cta.shared::cta.b64 _, [%0]": False,
    "arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%0], 0": False,
    "arrive.expect_tx.shared::cta.b64 _, [%0], 0": True,
}


def exchange_by(name):
    return exchange(
        f'asm volatile("mbarrier.{name};" :: "r"((unsigned)__cvta_generic_to_shared(&full)) : "memory");'
    )


add(*map(exchange_by, ARRIVALS))


@pytest.mark.parametrize(("name", "right"), ARRIVALS.items())
def test_relaxed_arrivals_order_nothing(name, right):
    report = check(exchange_by(name))
    assert kinds(report) == (set() if right else {"race"})


LACKING_ORDERS = ["arrive.acquire.cta", "test_wait.release.cta"]
LACKING_REDUCTIONS = [
    *("add.s64", "add.noftz.f32", "add.f16", "min.f32", "max.f64", "min.noftz.f16", "inc.u64", "xor.b16"),
    *("add.u16", "and.u32"),
]


@cache
def errors():
    """The compiler's messages about what PTX lacks, by name."""
    texts = [
        f'asm volatile("{{ .reg .pred p; mbarrier.{name}.shared::cta.b64 p, [%0], 0; }}" :: "r"(0));'
        for name in LACKING_ORDERS
    ]
    texts += [
        f'asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.{what} [%0], [%1], 16;"'
        ' :: "l"(y), "r"(0));'
        for what in LACKING_REDUCTIONS
    ]
    messages = compile_errors("one", [ONE % text for text in texts], [f"-I{COMMON}"])
    return dict(zip(LACKING_ORDERS + LACKING_REDUCTIONS, messages, strict=True))


@pytest.mark.parametrize("name", LACKING_ORDERS)
@pytest.mark.usefixtures("compiled_at_once")
def test_orders_that_an_instruction_lacks_are_refused(name):
    assert f"mbarrier.{name}" in errors()[name].splitlines()[0]


@pytest.mark.parametrize("what", LACKING_REDUCTIONS)
@pytest.mark.usefixtures("compiled_at_once")
def test_reductions_that_ptx_lacks_are_refused(what):
    assert f"bulk_group.{what}" in errors()[what].splitlines()[0]


MANY_GROUPS = add(
    "s[t] = t; ptx::fence_proxy_async(); __syncthreads(); if (t == 0) for (int i = 0; i < 70000; i++) { "
    "ptx::cp_async_bulk_store(y + 4 * i, s, 16); ptx::cp_async_bulk_commit_group(); "
    "ptx::cp_async_bulk_wait_group_read<0>(); }"
)


def test_many_groups_of_one_thread():
    """Waits for reads alone keep nothing that grows into a fault."""
    x, y = np.ones(256, np.float32), np.zeros(4 * 70000, np.float32)
    report = smemkit.check(VARIANTS[ONE % MANY_GROUPS][1, 64], x, y, completion="late")
    assert not report.faults, report
    assert report.seconds < 60, "not in proportion to the square of the groups"


WAITS_FOR_READS = (
    "s[t] = t; ptx::fence_proxy_async(); __syncthreads(); if (t == 0) { ptx::cp_async_bulk_store(y, s, 256); "
    "ptx::cp_async_bulk_commit_group(); ptx::cp_async_bulk_wait_group_read<0>(); %s } __syncthreads(); "
    "s[t] = y[t];"
)
WAITS_FOR_WRITES = add(WAITS_FOR_READS % "", WAITS_FOR_READS % "ptx::cp_async_bulk_wait_group<0>();")


def test_a_wait_for_writes_after_one_for_reads():
    wrong, right = WAITS_FOR_WRITES
    assert kinds(check(wrong)) == {"race"}
    assert not check(right).faults


FULL_COUNT = {
    arrive: VARIANTS.add(
        ONE.replace("mbarrier_init(&full, 1)", "mbarrier_init(&full, (1 << 20) - 1)")
        % f'asm volatile("{arrive}.shared.b64 [%0];" :: "r"((unsigned)__cvta_generic_to_shared(&full)));'
    )
    for arrive in ("cp.async.mbarrier.arrive", "cp.async.mbarrier.arrive.noinc")
}


def test_an_mbarrier_counts_at_most_its_arrivals():
    x = np.ones(256, np.float32)
    counted, not_counted = (VARIANTS[text][1, 1] for text in FULL_COUNT.values())
    (fault,) = smemkit.check(counted, x, x.copy()).faults
    assert fault.kind == "barrier"
    assert "expects 1048575 arrivals, the maximum" in fault.message
    assert kinds(smemkit.check(not_counted, x, x.copy())) == set()


def completed(bytes_):
    text = f'if (t == 0) asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], {bytes_};"'
    return add(text + ' :: "r"((unsigned)__cvta_generic_to_shared(&full)));')


COMPLETED = {bytes_: completed(bytes_) for bytes_ in (2**20 - 1, 2**20)}


@pytest.mark.parametrize(("bytes_", "right"), [(2**20 - 1, True), (2**20, False)])
def test_bytes_that_nobody_expects_are_limited(bytes_, right):
    report = check(COMPLETED[bytes_])
    assert kinds(report) == (set() if right else {"barrier"}), report


def test_dynamic_memory_fits_each_swizzle():
    text = "__global__ void k(unsigned long long *y) { extern __shared__ char s[]; y[0] = (unsigned long long)s; }"
    for shared_bytes in (16, 1000, 1024, 3000):
        y = np.zeros(1, np.uint64)
        kernel(text)[1, 1, shared_bytes](y)
        assert y[0] % 1024 == 0


SHARED_BUFFER = """
#include "ptx/cp_async_bulk.cuh"
#include "ptx/mbarrier.cuh"
__global__ void both(char *x)
{
    __shared__ alignas(128) char s[8192];
    __shared__ uint64_t full;
    if (blockIdx.x % 2) { // the checker now notes accesses to x byte by byte
        x[8 * 8192 + blockIdx.x] = 1;
        return;
    }
    ptx::mbarrier_init(&full, 1);
    for (int i = 0; i < 8; i++) {
        ptx::mbarrier_arrive_expect_tx(&full, 8192);
        ptx::cp_async_bulk_load(s, x + i * 8192, 8192, &full);
        while (!ptx::mbarrier_test_wait_parity(&full, i & 1)) {}
    }
}
"""


@pytest.fixture
def two_workers():
    before = smemkit.get_num_threads()
    smemkit.set_num_threads(2)
    yield
    smemkit.set_num_threads(before)


@pytest.mark.timeout(60)
def test_bytes_are_stored_in_a_buffer_that_another_block_copies(two_workers):
    """The checker refines its records of the buffer while another worker uses them."""
    both = smemkit.Kernel(SHARED_BUFFER, options=[f"-I{COMMON}"])
    for _ in range(times(20, 3)):
        assert smemkit.check(both[4, 1], np.zeros(9 * 8192, np.int8)).ok
