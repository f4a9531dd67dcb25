"""Each barrier, fence, atomic and mask of the correct kernels is removed or weakened in turn (see weakened.py):
the checker must find it under every schedule, except those listed here."""

import pytest
import weakened

import smemkit

BARRIER_ORDERS_IT = (
    "the block's barrier between this and the read acts as the fence, as in NVIDIA's threadFenceReduction"
)

# The weakenings that are not found, and why.
SURVIVORS = {
    "copy_float4:13 __syncthreads() deleted": "each thread reads the element that it has stored itself",
    "every_thread_fences:20 __threadfence() deleted": BARRIER_ORDERS_IT,
    "every_thread_fences:20 __threadfence() of the block": BARRIER_ORDERS_IT,
    "grid_barrier:16 __threadfence() deleted": BARRIER_ORDERS_IT,
    "grid_barrier:16 __threadfence() of the block": BARRIER_ORDERS_IT,
    "group_reduction:33 block.sync() deleted": "no warp has accessed another's words, and the tile's last sync() "
    "orders each warp's own",
    "histogram_per_warp:14 atomicAdd plain": "with these numbers, each lane of a warp has its own bin",
    "message_by_flag:20 memory_order_acquire relaxed": BARRIER_ORDERS_IT,
    "reduce_unrolled:35 __syncthreads() deleted": "only blocks of at least 256 threads execute it",
    "scan_blelloch:31 __syncthreads() deleted": "each thread has stored the two elements that it reads",
    "shared_memory_class:35 cg::sync(cta) deleted": "its loop runs only in blocks of more than 64 threads",
    "single_pass_all_read:16 __threadfence() deleted": BARRIER_ORDERS_IT,
    "single_pass_all_read:16 __threadfence() of the block": BARRIER_ORDERS_IT,
    "uniform_branches:16 __syncthreads() deleted": "each thread doubles the element that it has stored itself",
}
with smemkit.Device("cpu"):  # all of them are checked there
    CASES = weakened.cases()
QUICK = ("histogram_shared", "spin_lock", "pairs_of_a_warp", "async_copy_own")


def expected(case):
    labels = [case.label(number) for number in range(len(case.sites))]
    return {label: weakened.SCHEDULES for label in labels if label in SURVIVORS}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_mutations_are_detected(name, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "10")
    case = CASES[name]
    for schedule in weakened.SCHEDULES:
        report = case.check(-1, schedule)
        assert report.ok, report
    assert case.survivors() == expected(case)


def test_list_of_undetected_is_current():
    labels = {case.label(number) for case in CASES.values() for number in range(len(case.sites))}
    assert labels >= SURVIVORS.keys()
    assert len(labels) > 200


def test_mutation_labels_and_source():
    text = (
        "__global__ void k(int *x) { __syncthreads(); if (atomicAdd(x, 1)) __threadfence(); /* __syncwarp() */ }"
    )
    whats = [site.what for site in weakened.weakenings(text, "k")]
    assert whats == [
        "__syncthreads() deleted",
        "atomicAdd plain",
        "__threadfence() deleted",
        "__threadfence() of the block",
    ]
    source = weakened.weakened(text, "k")
    assert "void k(int *x, int chosen) { weakening(chosen); (weak(0) ? (void)0 : __syncthreads());" in source
    assert "if ((weak(1) ? plainAdd(x, 1) : atomicAdd(x, 1)))" in source
