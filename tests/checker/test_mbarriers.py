"""Uses of an mbarrier: init, use, inval. A wrong order is reported with both lines, in each spelling."""

import re
import time
from functools import cache

import numpy as np
import pytest
from together import Kernels, Variants, together

import smemkit

KERNEL = """
#include <cuda/barrier>
#include <cuda/ptx>
__global__ void k(int *y)
{
    __shared__ uint64_t b[4];
    __shared__ cuda::barrier<cuda::thread_scope_block> object;
    const unsigned at = (unsigned)__cvta_generic_to_shared(b);
    const int t = threadIdx.x;
    %s
}
"""
INLINE = {
    "init": 'asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at))',
    "arrive": 'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at))',
    "inval": 'asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at))',
}
SPELLINGS = {
    "inline": INLINE,
    "cuda::ptx": {
        "init": "cuda::ptx::mbarrier_init(b, 64)",
        "arrive": "cuda::ptx::mbarrier_arrive(b)",
        "inval": INLINE["inval"],
    },
    "library": {"init": "init(&object, 64)", "arrive": "(void)object.arrive()", "inval": "object.~barrier()"},
}
ORDERS = [("serial", 0), ("random", 1), ("random", 2), ("lockstep", 0)]

INIT = "if (t == 0)\n        {init};\n"  # the init is in the second line
SYNC = "    __syncthreads();\n"


def source(body, spelling="inline"):
    for name, text in SPELLINGS[spelling].items():
        body = body.replace("{" + name + "}", text)
    return KERNEL % body


KERNELS = Kernels()
VARIANTS = Variants("k")


def add(body, spellings=("inline",)):
    """Has kernels with this body compiled with the others of this file. Returns the body."""
    for spelling in spellings:
        VARIANTS.add(source(body, spelling))
    return body


def check(body, spelling="inline", schedule="serial", seed=0):
    return check_kernel(VARIANTS[source(body, spelling)], schedule, seed)


def check_kernel(kernel, schedule, seed):
    return smemkit.check(kernel[1, 64], np.zeros(64, np.int32), schedule=schedule, seed=seed)


def line(text, mark, name=""):
    """The line where a mark first occurs, after the name of a kernel."""
    return text[: text.index(mark, text.index(name))].count("\n") + 1


LIVES = {  # a mistake: its code, the expected message, and a word of the advice
    "initialised twice": (
        *(INIT + SYNC + INIT.replace(";", "; // HERE", 1), "without mbarrier.inval in between"),
        "Let one thread initialise",
    ),
    "used after inval": (
        INIT + SYNC + "    if (t == 5)\n        {inval};\n" + SYNC + "    {arrive}; // HERE\n",
        *("has invalidated at", "Run mbarrier.inval after the last use"),
    ),
    "invalidated twice": (
        INIT + SYNC + "    if (t == 5)\n        {inval};\n" + SYNC + "    if (t == 6)\n        {inval}; // HERE\n",
        *("has invalidated at", "Run mbarrier.inval after the last use"),
    ),
}
LIVES_TEXT = together("k", [source(body, spelling) for body, *_ in LIVES.values() for spelling in SPELLINGS])


@cache
def lives():
    return smemkit.Kernel(LIVES_TEXT)


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("life", LIVES)
@pytest.mark.covering
def test_what_is_out_of_order_is_reported_with_both_lines(life, spelling, schedule, seed):
    _, expected, advice = LIVES[life]
    text, name = LIVES_TEXT, f"k{[*LIVES].index(life) * len(SPELLINGS) + [*SPELLINGS].index(spelling)}"
    first = SPELLINGS[spelling]["init" if "twice" in life and "init" in life else "inval"]
    lines = (line(text, "// HERE", f"{name}("), line(text, first, f"{name}("))
    if first == "object.~barrier()":
        expected, advice = "of a cuda::barrier that thread (5, 0, 0) has destroyed", "Destroy the cuda::barrier"
        lines = (None if "twice" in life else lines[0], None)  # a destructor does not know its caller's line
    (fault,) = check_kernel(lives()[name], schedule, seed).faults
    assert (fault.kind, fault.title) == ("barrier", "mbarrier")
    assert expected in fault.message
    assert (fault.line, fault.other_line) == lines
    assert advice in fault.fix


NOT_ORDERED = add(INIT + "    {arrive};", SPELLINGS)


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.covering(3)
def test_a_use_that_no_barrier_orders_after_the_init_is_a_race(spelling, schedule, seed):
    text = source(NOT_ORDERED, spelling)
    report = check(NOT_ORDERED, spelling, schedule, seed)
    assert {fault.kind for fault in report.faults} == {"race"}, report
    lines = {VARIANTS.line(SPELLINGS[spelling][name], text) for name in ("init", "arrive")}
    assert lines in [{fault.line, fault.other_line} for fault in report.faults]
    assert "Put __syncthreads() after line" in report.faults[0].fix


USES = [
    "{arrive};",
    'asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at));',
    'asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%0], 0; }" :: "r"(at));',
    "{inval};",
    "if (t == 1)\n        {arrive};\n    __syncthreads();\n    if (t == 0)\n        {init};",
]
for use in USES:
    add(use)


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.covering(2)
def test_a_use_without_init_is_reported(use, schedule, seed):
    report = check(use, schedule=schedule, seed=seed)
    assert {fault.kind for fault in report.faults} - {"race", "uninitialised"} == {"barrier"}, report
    (fault,) = (fault for fault in report.faults if fault.kind == "barrier")
    assert "of an mbarrier that is not initialised at" in fault.message


def test_a_use_without_init_is_reported_by_a_run():
    with pytest.raises(smemkit.Error, match=r"mbarrier\.arrive of an mbarrier that is not initialised at kernel"):
        smemkit.Kernel(source("{arrive};"))[1, 64](np.zeros(64, np.int32))


OVERWRITTEN = add(INIT + SYNC + "    if (t < 4)\n        b[t] = t;\n" + SYNC + "    {arrive};\n")


def test_memory_that_data_have_overwritten_is_reported():
    (fault,) = check(OVERWRITTEN).faults
    assert "whose memory has been overwritten since thread (0, 0, 0) initialised it" in fault.message
    assert fault.other_line == VARIANTS.line(INLINE["init"], source(OVERWRITTEN))
    assert "memory of its own" in fault.fix


LIFE = INIT + SYNC + "    {arrive};\n" + SYNC + INIT.replace("{init}", "{inval}")
TWO_LIVES = add(f"{LIFE}    {LIFE}", SPELLINGS)


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.covering(2)
def test_an_mbarrier_begins_again_after_inval(spelling, schedule, seed):
    report = check(TWO_LIVES, spelling, schedule, seed)
    assert report.ok, report


TRIES = (
    INIT + SYNC + "    for (int i = 0; i < 2; i++) {\n"
    "        if (t == 5) (void)cuda::ptx::mbarrier_try_wait_parity(b, 0); // TRY\n"
    "        if (i == 0) __syncthreads();\n"
    "        if (t == 0 && i == 0) {\n            {inval}; // ANEW\n            {init};\n        }\n"
    "        if (i == 0) {\n            BETWEEN\n        }\n    }\n"
)
ORDERED_TRIES, UNORDERED_TRIES = (add(TRIES.replace("BETWEEN", text)) for text in ("__syncthreads();", ""))


@pytest.mark.parametrize("body", [UNORDERED_TRIES, ORDERED_TRIES], ids=["race", "ordered"])
def test_a_wait_for_an_mbarrier_that_began_anew_between_its_tries_is_checked(body):
    """Tries that fail again are checked once, unless the thread has synchronised in between."""
    text, report = source(body), check(body)
    if body == ORDERED_TRIES:
        assert report.ok, report
    else:
        assert {fault.kind for fault in report.faults} == {"race"}, report
        lines = {VARIANTS.line("// TRY", text), VARIANTS.line("// ANEW", text)}
        assert lines in [{fault.line, fault.other_line} for fault in report.faults]


OF_EVERY_BLOCK = add(INIT + SYNC + "    {arrive};")


def test_every_block_has_its_own_mbarriers():
    text = source(OF_EVERY_BLOCK)
    report = smemkit.check(VARIANTS[text][5, 64], np.zeros(64, np.int32), blocks="all")
    assert report.ok, report
    smemkit.Kernel(text)[5, 64](np.zeros(64, np.int32))


KERNELS.add("""
#include <cooperative_groups.h>
#include <cuda/pipeline>
__global__ void new_pipelines(int *y)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    for (int i = 0; i < 2; i++) {
        auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
        pipe.producer_acquire();
        pipe.producer_commit();
        pipe.consumer_wait();
        pipe.consumer_release();
        __syncthreads();
    }
}
""")


def test_pipelines_begin_again():
    report = smemkit.check(KERNELS["new_pipelines"][1, 64], np.zeros(64, np.int32))
    assert report.ok, report


# ---- waits that do not order what they should ----

PHASES = """
#include <cuda/ptx>
__device__ __forceinline__ void wait_for(uint64_t *b, int parity)
{
    while (!cuda::ptx::mbarrier_try_wait_parity(b, parity)) // WAIT
        ;
}
__global__ void k(const float *x, float *y)
{
    __shared__ float s[2][64];
    __shared__ uint64_t b;
    const int t = threadIdx.x;
    if (t == 0)
        cuda::ptx::mbarrier_init(&b, COUNT);
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        s[i][t] = x[64 * i + t]; // WRITE
        cuda::ptx::mbarrier_arrive(&b);
        wait_for(&b, PARITY); // CALL
        y[64 * i + t] = s[i][63 - t]; // READ
    }
}
"""


def phases_text(count, parity):
    return PHASES.replace("COUNT", str(count)).replace("PARITY", parity)


PHASED = Variants("k")
for count, parity in (64, "i % 2"), (64, "1 - i % 2"), (64, "0"), (65, "i % 2"):
    PHASED.add(phases_text(count, parity))
TOO_SMALL_A_COUNT = PHASED.add(
    phases_text(2, "PARITY")
    .replace("wait_for(&b, PARITY)", "while (!cuda::ptx::mbarrier_try_wait_parity(&b, 0))")
    .replace("i < 2", "i < 1")
)


def check_phases(count, parity, **options):
    text = phases_text(count, parity)
    data = (np.ones(128, np.float32), np.zeros(128, np.float32))
    return text, smemkit.check(PHASED[text][1, 64], *data, **options)


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
def test_the_right_parity_orders(schedule, seed):
    assert check_phases(64, "i % 2", schedule=schedule, seed=seed)[1].ok


@pytest.mark.parametrize(("parity", "phases"), [("1 - i % 2", (0, 1)), ("0", (1,))])
@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.covering(1)
def test_a_wait_for_the_phase_before_is_named_with_the_race_that_it_allows(parity, phases, schedule, seed):
    text, report = check_phases(64, parity, schedule=schedule, seed=seed)
    assert {fault.kind for fault in report.faults} == {"race"}, report  # an endless wait is folded under it
    fault = report.faults[0]
    assert (fault.hazard, fault.line, fault.other_line) == (
        *("RAW", PHASED.line("// READ", text)),
        PHASED.line("// WRITE", text),
    )
    wait, found = PHASED.line("// WAIT"), re.search(r"while phase (\d) of its mbarrier was not", fault.message)
    assert f"the wait at line {wait} returned at once" in fault.message
    assert int(found[1]) in phases
    assert f"Line {wait} waits for parity {1 - int(found[1])} in phase {found[1]}" in fault.fix
    assert "PTX ISA, mbarrier.test_wait" in fault.fix


def test_an_endless_wait_for_the_wrong_parity_is_reported_with_its_call():
    text, report = check_phases(65, "i % 2")
    (fault,) = report.faults
    assert fault.kind == "hang"
    assert fault.line == PHASED.line("// WAIT")
    assert f"line {fault.line} is called at line {PHASED.line('// CALL', text)}" in fault.message


def test_too_small_a_count_is_named_with_the_race_that_it_allows():
    report = smemkit.check(
        PHASED[TOO_SMALL_A_COUNT][1, 64],
        *(np.ones(128, np.float32), np.zeros(128, np.float32)),
    )
    fault = report.faults[0]
    assert (fault.kind, fault.hazard) == ("race", "RAW")
    assert "more than 2 threads arrive in a phase" in fault.fix or "expects 2 arrivals in a phase" in fault.fix


INIT_OF_ALL = add("{init};\n" + SYNC)


def test_two_inits_at_one_line_are_one_fault():
    (fault,) = check(INIT_OF_ALL).faults
    assert fault.line == fault.other_line
    assert {consequence.kind for consequence in fault.knock_on} <= {"race"}


OWN_OBJECTS = """
#include <cstdint>
__global__ void k(unsigned long long *y, int lanes)
{
    __shared__ uint64_t bar[64];
    const int t = threadIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar[t % 32]);
    BODY
}
"""
INIT_OWN = 'asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(at) : "memory");'
ARRIVE_OWN = 'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");'


HAZARDS_OF_A_WARP = [
    (f"if (t < lanes) {INIT_OWN} __syncthreads(); if (t < lanes) y[t] = bar[t];", set()),
    (f"if (t >= 32) bar[t - 32] = t; else if (t < lanes) {INIT_OWN}", {"WAW"}),
    (f"if (t < lanes) {INIT_OWN} if (t >= 32 && t - 32 < lanes) y[t] = bar[t - 32];", {"RAW"}),
    (f"if (t < lanes) {INIT_OWN} __syncthreads(); if (t >= 32 && t - 32 < lanes) {ARRIVE_OWN}", set()),
]
WITH_OWN_OBJECTS = Variants("k")
for body, _ in HAZARDS_OF_A_WARP:
    WITH_OWN_OBJECTS.add(OWN_OBJECTS.replace("BODY", body))


@pytest.mark.parametrize("lanes", [31, 32])  # all lanes of a warp are checked together
@pytest.mark.parametrize(("body", "hazards"), HAZARDS_OF_A_WARP)
def test_the_init_of_a_whole_warp_is_a_store(body, hazards, lanes):
    kernel = WITH_OWN_OBJECTS[OWN_OBJECTS.replace("BODY", body)]
    report = smemkit.check(kernel[1, 64], np.zeros(64, np.uint64), lanes)
    assert {fault.hazard for fault in report.faults} == hazards, report
    assert all(fault.kind == "race" and fault.other_line for fault in report.faults), report


RING = """#include <cuda/ptx>
#include <cstdint>
namespace ptx = cuda::ptx;
__global__ void ring(int *y, int turns)
{
    __shared__ int s[2];
    __shared__ uint64_t full[2], empty[2];
    const int t = threadIdx.x;
    if (t == 0)
        for (int i = 0; i < 2; i++) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], 63);
        }
    __syncthreads();
    int sum = 0;
    for (int turn = 0; turn < turns; turn++) {
        const int i = turn % 2;
        if (t == 0) {
            while (turn > 1 && !ptx::mbarrier_try_wait_parity(SCOPE &empty[i], (turn / 2 - 1) % 2))
                ;
            s[i] = turn;
            ptx::mbarrier_arrive(&full[i]);
        } else {
            while (!ptx::mbarrier_try_wait_parity(SCOPE &full[i], turn / 2 % 2))
                ;
            sum += s[i];
            ptx::mbarrier_arrive(&empty[i]);
        }
    }
    y[t] = sum;
}
"""


RINGS = Variants("ring")
for scope in "", "ptx::sem_acquire, ptx::scope_cta,":
    RINGS.add(RING.replace("SCOPE", scope))


def test_long_rings_of_waits_of_a_block_are_checked_in_time():
    """The searches visit each release once, whatever the scope of the waits."""
    seconds = {}
    for text in RINGS.texts:
        kernel = RINGS[text][1, 64]
        kernel.compile_checked()
        begin = time.process_time()
        assert smemkit.check(kernel, np.zeros(64, np.int32), 160).ok
        seconds[text] = time.process_time() - begin
    plain, of_block = seconds.values()
    assert of_block < 3 * plain + 1


# ---- waits inside the library, which log nothing but their tries ------------------------------------------------

KERNELS.add("""
#include <cuda/barrier>
__global__ void long_work(const int *x, int *y, int n)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    __shared__ int sum;
    const int t = threadIdx.x;
    if (t == 0)
        init(&ready, 1);
    __syncthreads();
    if (t == 0) {
        int all = 0;
        for (int i = 0; i < n; i++)
            all += x[i];
        sum = all;
        (void)ready.arrive();
    }
    ready.wait_parity(0);
    y[t] = sum;
}
""")


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.parametrize("n", [100, 5000])  # 5000 loads do not fit in the log of thread 0
def test_a_lane_that_works_for_long_is_waited_for(n, schedule, seed, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "5")
    y = np.zeros(32, np.int32)
    report = smemkit.check(KERNELS["long_work"][1, 32], np.ones(n, np.int32), y, n, schedule=schedule, seed=seed)
    assert report.ok, report


KERNELS.add("""
#include <cuda/barrier>
__global__ void endless(int *y)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> object;
    const int t = threadIdx.x;
    if (t == 0)
        init(&object, 64);
    __syncthreads();
    if (t == 3)
        while (!object.try_wait_parity(0))
            ;
    if (t == 5)
        object.wait_parity(0);
}
__global__ void poisoned(int *y)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> object;
    const int t = threadIdx.x;
    if (t == 0)
        init(&object, 64);
    __syncthreads();
    if (t == 5) {
        y[t] = y[1000000]; // FIRST
        object.arrive_and_wait();
    }
    __syncthreads();
    if (t == 9)
        y[2000000] = 3; // SECOND
}
""")


@pytest.mark.parametrize("schedule", ["serial", "lockstep", "random"])
def test_two_lanes_that_wait_for_ever_are_found_at_once(schedule, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "5")
    (fault,) = check_kernel(KERNELS["endless"], schedule, 0).faults
    assert "endless wait" in fault.message


@pytest.mark.parametrize("schedule", ["serial", "lockstep", "random"])
def test_a_lane_that_waits_after_a_fault_does_not_hide_another(schedule, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "5")
    faults = check_kernel(KERNELS["poisoned"], schedule, 0).faults
    lines = {fault.line for fault in faults if fault.kind == "out_of_bounds"}
    assert lines == {KERNELS.line("// FIRST"), KERNELS.line("// SECOND")}


FAILED_WAIT = """
#include <cuda/ptx>
__global__ void k(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ uint64_t b;
    const int t = threadIdx.x;
    if (t == 0)
        cuda::ptx::mbarrier_init(&b, 64);
    __syncthreads();
    if (t != 63) {
        s[t] = x[t]; // WRITE
        cuda::ptx::mbarrier_arrive(&b);
    } else {
        for (int i = 0; i < TRIES; i++)
            (void)cuda::ptx::mbarrier_try_wait_parity(&b, 0);
        __threadfence_block();
        y[0] = s[0]; // READ
    }
}
"""


FAILED_WAITS = Variants("k")
for tries in (1, 3):
    FAILED_WAITS.add(FAILED_WAIT.replace("TRIES", str(tries)))


@pytest.mark.parametrize("tries", [1, 3])
def test_a_failed_wait_orders_nothing(tries):
    text = FAILED_WAIT.replace("TRIES", str(tries))
    report = smemkit.check(FAILED_WAITS[text][1, 64], np.ones(64, np.float32), np.zeros(1, np.float32))
    assert {(fault.kind, fault.line, fault.other_line) for fault in report.faults} == {
        ("race", FAILED_WAITS.line("// READ", text), FAILED_WAITS.line("// WRITE", text))
    }
