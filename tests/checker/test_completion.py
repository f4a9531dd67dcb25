"""When asynchronous copies complete: at once, as late as the program allows, or either."""

import numpy as np
import pytest
from kernel_files import TESTS, read

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


def check(body, threads=64, **options):
    x = np.ones(64, np.float32)
    return smemkit.check(smemkit.Kernel(KERNEL % body)[1, threads], x, x.copy(), **options)


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
def test_unfinished_copies_are_told(completion):
    report = check("__pipeline_commit();", completion=completion)
    (fault,) = report.faults
    assert (fault.kind, fault.severity, fault.title) == ("leak", "warning", "unfinished copy")
    assert "__pipeline_memcpy_async" in fault.text
    assert "exits without a wait" in fault.message
    assert "wait" in str(fault.fix)
    assert fault.meaning
    assert report.ok


def test_a_leak_is_not_told_beside_the_race_it_causes():
    assert kinds(check("__syncthreads(); y[t] = s[63 - t];")) == {"race"}


@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("name", ["faulty/mbarrier_copies_not_bound.fixed", "right/matmul_ldmatrix_stages"])
def test_right_kernels_have_no_fault(name, completion):
    report = read(TESTS / f"{name}.cu").check(completion=completion, seed=1)
    assert not report.faults, report


PRODUCTS = {  # kernels of real size: whether b is transposed
    "matmul_stages_f16": True,
    "matmul_stages_tf32": True,
    "matmul_stages_int8": True,
    "matmul_wmma": False,
}


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
    case.launch()(*operands.values())
    a, b = (operands[name].astype(int) for name in ("a", "b"))
    np.testing.assert_array_equal(operands["c"], a @ (b.T if PRODUCTS[name] else b))


@pytest.mark.parametrize(("schedule", "seed"), [("serial", 0), ("random", 1), ("random", 2), ("lockstep", 0)])
@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("name", [*PRODUCTS, "pipeline_ring"])
@pytest.mark.covering(1, most=6)
def test_products_have_no_fault_in_any_order(name, completion, schedule, seed):
    case = read(TESTS / "right" / f"{name}.cu")
    report = smemkit.check(
        case.launch(), *case.operands().values(), completion=completion, schedule=schedule, seed=seed, blocks=2
    )
    assert not report.faults, report
    if name.startswith("matmul_stages"):
        assert sum(line.conflicts for line in report.lines) == 0, report


def test_operations_are_run_on_new_copies_each_time():
    a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    report = smemkit.check(smemkit.matmul, a, a, kernel="pipelined")
    assert report.ok, report
    assert len(report.launches) == 1


def test_completions_are_refused_by_name():
    with pytest.raises(ValueError, match="completion: expected one of both, early, late, random, got 'soon'"):
        smemkit.check(smemkit.sum, np.ones(4), completion="soon")
