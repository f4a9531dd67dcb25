"""Kernels that have the name of a function of the C or C++ library, or of CUDA's math API."""

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tiers import times

import smemkit

NAMES = re.findall(
    r"\w+",
    """
    y0 y1 yn j0 j1 jn gamma lgamma tgamma sin cosf exp10 pow sqrt floor ceil round rint trunc fmod hypot erfcinv
    fma fmin fmaxf max min scalb logb drem norm norm3d normcdf isnan signbit abs labs div ldiv rand srand qsort
    malloc calloc free exit abort atoi system getenv index rindex memcpy memset strlen remove rename printf sprintf
    puts getchar time clock difftime signal raise read write close pipe fork sleep kill select send wait
    name shape bytes arguments number kernel count launch start run enter
    """,
)
IN_STD = re.findall(r"\w+", "copy fill swap move begin end exchange count transform sort find reverse accumulate")
HEADERS = "#include <algorithm>\n#include <cmath>\n#include <cstdlib>\n#include <utility>\nusing namespace std;\n"
KERNEL = "__global__ void {name}(const float *x, float *y, int n) {{ y[threadIdx.x] = x[threadIdx.x] * n; }}\n"
X = np.arange(8, dtype=np.float32)


def launched(kernel, number):
    y = np.zeros_like(X)
    with smemkit.Device("cpu"):
        kernel[1, 8](X, y, number)
    return y


def sources(names):
    return "".join(KERNEL.format(name=name) for name in names)


def test_each_can_be_launched_by_its_name():
    assert len(set(NAMES)) > 60
    source = sources(NAMES)
    whole = smemkit.Kernel(source)
    for number, name in enumerate(NAMES):
        kernel = whole[name] if number % times(1, 10) else smemkit.Kernel(source, name)
        assert_array_equal(launched(kernel, number), X * number)


def test_names_of_the_namespace_std():
    source = HEADERS + sources(IN_STD) + "__global__ void uses_std(float *y) { y[0] = std::max(y[0], 1.0f); }\n"
    whole = smemkit.Kernel(source)
    for number, name in enumerate(IN_STD):
        kernel = whole[name] if number % times(1, 10) else smemkit.Kernel(source, name)
        assert_array_equal(launched(kernel, number), X * number)


@pytest.mark.usefixtures("compiled_when_used")
def test_such_a_kernel_is_checked_and_reported_by_its_name():
    source = "__global__ void y1(float *y) { y[0] = threadIdx.x; }"
    report = smemkit.check(smemkit.Kernel(source)[1, 64], np.zeros(4, np.float32))
    assert not report.ok
    assert "y1" in report.launches[0].kernel


def test_a_kernel_named_printf_may_print(capfd):
    source = '__global__ void printf(int n) { if (threadIdx.x == 0) printf("%d of %d\\n", n, (int)blockDim.x); }'
    with smemkit.Device("cpu"):
        smemkit.Kernel(source, "printf")[1, 32](7)
    assert "7 of 32" in capfd.readouterr().out


@pytest.mark.parametrize("name", ["y1", "copy"])
def test_templates_and_namespaces(name):
    source = HEADERS + f"namespace own {{ struct pair {{ float a, b; }};\n__global__ void {name}(pair *x)"
    source += " { x[threadIdx.x].b = x[threadIdx.x].a; } }\n"
    source += f"template <class T> __global__ void {name}(T *x) {{ x[threadIdx.x] += 1; }}\n"
    x = np.arange(8, dtype=np.float32)
    with smemkit.Device("cpu"):
        smemkit.Kernel(source, f"own::{name}")[1, 4](x.view([("a", np.float32), ("b", np.float32)]))
        assert_array_equal(x, [0, 0, 2, 2, 4, 4, 6, 6])
        smemkit.Kernel(source, f"{name}<float>")[1, 8](x)
    assert_array_equal(x, [1, 1, 3, 3, 5, 5, 7, 7])
