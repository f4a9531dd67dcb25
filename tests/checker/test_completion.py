"""When asynchronous copies complete: at once, as late as the program allows, or either."""

import numpy as np
import pytest
from kernel_files import TESTS, read
from together import Variants

import smemkit

KERNEL = r"""
#include <cuda_pipeline.h>
__global__ void k(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = -1;
    __pipeline_memcpy_async(&s[t], &x[t], 4);
    %s
}
"""
OLD = "if (s[t] == -1) __trap(); __pipeline_wait_prior(0);"
NEW = "if (s[t] != -1) __trap(); __pipeline_wait_prior(0);"


UNFINISHED = "__pipeline_commit();"
WITHOUT_WAIT = "__syncthreads(); y[t] = s[63 - t];"
VARIANTS = Variants("k")
for body in (OLD, NEW, UNFINISHED, WITHOUT_WAIT):
    VARIANTS.add(KERNEL % body)


def check(body, threads=64, **options):
    x = np.ones(64, np.float32)
    return smemkit.check(VARIANTS[KERNEL % body][1, threads], x, x.copy(), **options)


def kinds(report):
    return {fault.kind for fault in report.faults}


@pytest.mark.parametrize(("body", "order"), [(OLD, "late"), (NEW, "early")])
def test_a_read_before_the_wait_gives_what_the_completion_says(body, order):
    other = "early" if order == "late" else "late"
    assert kinds(check(body, completion=order)) == {"race", "trap"}
    assert kinds(check(body, completion=other)) == {"race"}
    assert kinds(check(body)) == {"race", "trap"}


def test_random_completion_depends_on_the_seed():
    found = ["trap" in kinds(check(OLD, threads=1, completion="random", seed=seed)) for seed in range(8)]
    assert {False, True} == set(found)
    assert found == ["trap" in kinds(check(OLD, 1, completion="random", seed=seed)) for seed in range(8)]


@pytest.mark.parametrize("completion", ["early", "late"])
def test_unfinished_copies_are_reported(completion):
    report = check(UNFINISHED, completion=completion)
    (fault,) = report.faults
    assert (fault.kind, fault.severity, fault.title) == ("leak", "warning", "unfinished copy")
    assert "__pipeline_memcpy_async" in fault.text
    assert "exits without a wait" in fault.message
    assert "wait" in str(fault.fix)
    assert fault.meaning
    assert report.ok


def test_a_leak_is_not_reported_beside_the_race_it_causes():
    assert kinds(check(WITHOUT_WAIT)) == {"race"}


@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("name", ["faulty/mbarrier_copies_not_bound.fixed", "right/matmul_ldmatrix_stages"])
def test_right_kernels_have_no_fault(name, completion):
    report = read(TESTS / f"{name}.cu").check(completion=completion, seed=1)
    assert not report.faults, report


MBARRIER = r"""
#include <cuda/barrier>
__global__ void k(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> all;
    const int t = threadIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(cuda::device::barrier_native_handle(all));
    const unsigned to = (unsigned)__cvta_generic_to_shared(&s[t]);
    if (t == 0)
        init(&all, 64);
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(&x[t]) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
    BODY
}
"""
ORDERS = [("serial", 0), ("random", 1), ("random", 2), ("lockstep", 0)]
BEFORE_THE_WAIT = {
    "a read of an own element": "y[t] = s[t];",
    "a read": "y[t] = s[63 - t];",
    "a read after a barrier": "__syncthreads(); y[t] = s[63 - t]; all.wait_parity(0);",
    "a write after a barrier": "__syncthreads(); s[63 - t] = 1; all.wait_parity(0);",
    "a write to an own element": "s[t] = 1; all.wait_parity(0);",
    "a read after a wait of other threads": "if (t < 32) all.wait_parity(0); y[t] = s[63 - t];",
}
AFTER_THE_WAIT = {
    "a wait of all": "all.wait_parity(0); y[t] = s[63 - t];",
    "a wait of one thread and a barrier": "if (t == 5) all.wait_parity(0); __syncthreads(); y[t] = s[63 - t];",
    "a second phase": "all.wait_parity(0); y[t] = s[63 - t]; all.arrive_and_wait(); s[t] = 1;",
    "copies of a second phase": """all.wait_parity(0);
    y[t] = s[63 - t];
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(&x[t]) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
    all.wait_parity(1);
    y[t] += s[63 - t];""",
}


WRONG_PHASE = "all.wait_parity(1); y[t] = s[63 - t];"
EARLY = "__syncthreads(); if (!all.try_wait_parity(0)) __trap();"
MBARRIERS = Variants("k")
for body in (*BEFORE_THE_WAIT.values(), *AFTER_THE_WAIT.values(), WRONG_PHASE, EARLY):
    MBARRIERS.add(MBARRIER.replace("BODY", body))


def check_mbarrier(body, completion, schedule, seed):
    launch = MBARRIERS[MBARRIER.replace("BODY", body)][1, 64]
    x = np.arange(64, dtype=np.float32)
    return smemkit.check(launch, x, x.copy(), completion=completion, schedule=schedule, seed=seed)


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("body", BEFORE_THE_WAIT.values(), ids=BEFORE_THE_WAIT)
@pytest.mark.covering(2)
def test_an_access_that_no_wait_for_the_mbarrier_covers_is_a_race(body, completion, schedule, seed):
    assert kinds(check_mbarrier(body, completion, schedule, seed)) == {"race"}


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("body", AFTER_THE_WAIT.values(), ids=AFTER_THE_WAIT)
@pytest.mark.covering(2)
def test_an_access_after_a_wait_for_the_mbarrier_is_none(body, completion, schedule, seed):
    report = check_mbarrier(body, completion, schedule, seed)
    assert not report.faults, report


def test_a_wait_for_the_phase_before_is_too_early_or_too_late():
    late, early = (check_mbarrier(WRONG_PHASE, completion, "serial", 0) for completion in ("late", "early"))
    assert kinds(late) == {"race"}
    assert "hang" in kinds(early) | {consequence.kind for fault in early.faults for consequence in fault.knock_on}


def test_an_arrival_is_made_early():
    assert not kinds(check_mbarrier(EARLY, "early", "serial", 0))


PRODUCTS = {  # kernels of real size: whether b is transposed
    "matmul_stages_f16": True,
    "matmul_stages_tf32": True,
    "matmul_stages_int8": True,
    "matmul_wmma": False,
    "matmul_stmatrix": True,
}


@pytest.mark.parametrize("name", ["bulk_ring", "cluster_reduction", "split_k"])
def test_kernels_of_clusters_and_bulk_copies_are_exact(name):
    case = read(TESTS / "right" / f"{name}.cu")
    random, operands = np.random.default_rng(2), case.operands()
    for value in operands.values():
        value[...] = random.integers(-99, 99, value.shape)
    before = {key: value.astype(int) for key, value in operands.items()}
    case.run(operands)
    want = {
        "bulk_ring": lambda x, y: x.reshape(2, 16, 2, 128).sum((1, 2)),
        "cluster_reduction": lambda x, y: x.sum(1),
        "split_k": lambda a, b, c: a @ b,
    }[name](**before)
    np.testing.assert_array_equal(list(operands.values())[-1], want)


def test_the_specialised_product_is_exact():
    case = read(TESTS / "right" / "tma_wgmma_specialized.cu")
    random, operands = np.random.default_rng(3), case.operands()
    a, b_transposed, c = (operands[name].array for name in ("a", "b_transposed", "c"))
    a[...], b_transposed[...] = (random.integers(-8, 9, (128, 320)) for _ in range(2))
    case.run(operands)
    np.testing.assert_array_equal(c, a.astype(int) @ b_transposed.astype(int).T)


def test_the_ring_of_tensor_copies_is_exact():
    case = read(TESTS / "right" / "tma_ring.cu")
    operands = case.operands()
    x, y = operands["x"].array, operands["y"].array
    x[...] = np.random.default_rng(4).integers(-99, 99, x.shape)
    case.run(operands)
    np.testing.assert_array_equal(y, x * x)


def integer_operands(case):
    """Operands for which sums are exact."""
    random, operands = np.random.default_rng(1), case.operands()
    for name in ("a", "b"):
        operands[name][...] = random.integers(-8, 9, operands[name].shape)
    return operands


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_exact(name):
    case = read(TESTS / "right" / f"{name}.cu")
    operands = integer_operands(case)
    case.run(operands)
    a, b = (operands[name].astype(int) for name in ("a", "b"))
    product = a @ (b.T if PRODUCTS[name] else b)
    np.testing.assert_array_equal(operands["c"], product)
    if "c_transposed" in operands:
        np.testing.assert_array_equal(operands["c_transposed"], product.T)


@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("name", [*PRODUCTS, "pipeline_ring", "bulk_ring", "cluster_reduction", "split_k"])
@pytest.mark.covering(1, most=4)
def test_products_have_no_fault_in_any_order(name, completion, schedule, seed):
    case = read(TESTS / "right" / f"{name}.cu")
    report = case.check(completion=completion, schedule=schedule, seed=seed, blocks=2)
    assert not report.faults, report
    if name.startswith(("matmul_stages", "matmul_stmatrix")):
        assert sum(line.conflicts for line in report.lines) == 0, report


def test_operations_are_run_on_new_copies_each_time():
    a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    report = smemkit.check(smemkit.matmul, a, a, kernel="pipelined")
    assert report.ok, report
    assert len(report.launches) == 1


def test_completions_are_refused_by_name():
    with pytest.raises(ValueError, match="completion: expected one of both, early, late, random, got 'soon'"):
        smemkit.check(smemkit.sum, np.ones(4), completion="soon")
