"""Static __shared__ variables in all forms of declaration and use that CUDA allows: the CPU device gives a GPU's
result, or an error with the reason; and no launch sees the shared memory of an earlier one.
"""

import functools
import subprocess

import numpy as np
import pytest
from cases import run_python
from numpy.testing import assert_array_equal

import smemkit

KERNEL = "__global__ void k(int *x) {{ const int t = threadIdx.x; {} }}"
FILLED_ARRAY = "__shared__ int s[32]; s[t] = t; "

# name: the code before the kernel, and the kernel's body; x[t] becomes 7 * (31 - t)
RIGHT = {
    "a __device__ lambda that captures by copy": (
        "",
        FILLED_ARRAY
        + "auto f = [=] __device__ (int i) { return 7 * s[i]; }; s[t] = t; __syncthreads(); x[t] = f(31 - t);",
    ),
    "a lambda made before the array is written": (
        "",
        "__shared__ int s[32]; auto f = [=](int i) { return 7 * s[i]; };"
        "s[t] = t; __syncthreads(); x[t] = f(31 - t);",
    ),
    "a lambda with specifiers": (
        "",
        "__shared__ int s[32]; auto f = [=] __device__ (int i) mutable { return 7 * s[i]; };"
        "s[t] = t; __syncthreads(); x[t] = f(31 - t);",
    ),
    "a lambda that is noexcept": (
        "",
        "__shared__ int s[32]; auto f = [=, a = x[0]](int i) noexcept { return 7 * s[i]; };"
        "s[t] = t; __syncthreads(); x[t] = f(31 - t);",
    ),
    "a lambda that captures nothing": (
        "",
        "__shared__ int s[32]; s[t] = t; __syncthreads();"
        "auto f = [] __device__ (int i) { return 7 * s[i]; }; x[t] = f(31 - t);",
    ),
    "a lambda in a lambda": (
        "",
        "__shared__ int s[32]; auto f = [=](int i) { auto g = [=] { return 7 * s[i]; }; return g(); };"
        "s[t] = t; __syncthreads(); x[t] = f(31 - t);",
    ),
    "a lambda with a parameter of the same name": (
        "",
        FILLED_ARRAY + "__syncthreads(); auto f = [=](int s) { auto g = [=] { return 7 * s; }; return g(); };"
        "x[t] = f(s[31 - t]);",
    ),
    "a lambda with a variable of the same name": (
        "",
        FILLED_ARRAY + "__syncthreads(); auto f = [=](int i) { int s = 7; return s * i; }; x[t] = f(s[31 - t]);",
    ),
    "an index after a space": ("", FILLED_ARRAY + "__syncthreads(); x[t] = x [t] < s[31] ? 7 * s [31 - t] : 0;"),
    "a macro with arguments": (
        "#define TILE(T, n) __shared__ T n[32]\n",
        "TILE(int, s); auto f = [=](int i) { return 7 * s[i]; }; s[t] = t; __syncthreads(); x[t] = f(31 - t);",
    ),
    "a macro in a macro": (
        "#define TILE(T, n) __shared__ T n[32]\n#define MINE TILE(int, s)\n",
        "MINE; auto f = [=](int i) { return 7 * s[i]; }; s[t] = t; __syncthreads(); x[t] = f(31 - t);",
    ),
    "a macro that uses the variable": (
        "#define AT(i) s[i]\n",
        "__shared__ int s[32]; auto f = [=](int i) { return 7 * AT(i); };"
        "s[t] = t; __syncthreads(); x[t] = f(31 - t);",
    ),
    "a file-scope variable": (
        "__shared__ int s[32];\n#define AT(i) s[i]\n__device__ int f(int i) { return 7 * AT(i); }\n"
        "__device__ int g(int s) { return s; }\n",
        "s[t] = t; __syncthreads(); auto h = [=](int i) { return f(i) + 0 * s[i]; }; x[t] = g(h(31 - t));",
    ),
    "a file-scope variable, and a local one of the same name": (
        "__shared__ int s[32];\n__device__ int f(int i) { return s[i]; }\n"
        "__device__ void put(int t) { s[t] = 7 * t; }\n",
        "put(t); __syncthreads(); int s = f(31 - t); x[t] = s;",
    ),
    "a variable in a namespace": (
        "namespace a { __shared__ int s[32]; __device__ int f(int i) { return 7 * s[i]; } }\n",
        "a::s[t] = t; __syncthreads(); x[t] = a::f(31 - t);",
    ),
    "a file-scope variable in a member function": (
        "__shared__ int s[32];\n"
        "template <int N> struct By { static __device__ int f(int i) { return N * s[i]; } };\n",
        "::s[t] = t; __syncthreads(); x[t] = By<7>::f(31 - t);",
    ),
    "a case that jumps over it": (
        "",
        "switch (x[32]) { case 1: __shared__ int s[32]; s[t] = 0; break; case 2: x[t] = 1; break;"
        "default: s[t] = t; __syncthreads(); x[t] = 7 * s[31 - t]; }",
    ),
    "a goto that jumps over it": (
        "",
        "if (t >= 0) goto on; x[t] = 1; __shared__ int s[32]; s[t] = 1;"
        "on: s[t] = t; __syncthreads(); x[t] = 7 * s[31 - t];",
    ),
    "a goto that goes back": (
        "",
        "__shared__ int s[32]; int n = 0; again: s[t] = n; if (n++ < t) goto again;"
        "__syncthreads(); x[t] = 7 * s[31 - t];",
    ),
}


@functools.cache
def kernel(source):
    with smemkit.Device("cpu"):
        return smemkit.Kernel(source, "k")


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.covering(most=4)
def test_shared_variables_work_as_in_cuda(name):
    before, body = RIGHT[name]
    k, x = kernel(before + KERNEL.format(body)), np.zeros(33, np.int32)
    k[1, 32](x)
    assert_array_equal(x[:32], 7 * np.arange(32)[::-1])
    report = smemkit.check(k[1, 32], np.zeros(33, np.int32))
    assert report.ok, report


@pytest.mark.parametrize(
    ("before", "body", "message"),
    [
        (
            "#define TILE(T, n) __shared__ T n[32]\nTILE(int, s);\n",
            "x[t] = s[t];",
            "kernel.cu:2: TILE declares a shared variable outside of functions: write it without the macro",
        ),
        (
            "",
            "__shared__ int s[32]; { int s = 3; auto f = [=] { return s; }; x[t] = f(); }",
            "s is a local variable here and a shared one further out: give them different names",
        ),
    ],
    ids=["a macro at file scope", "two variables of the same name"],
)
def test_ambiguous_shared_variables_are_rejected(before, body, message):
    with pytest.raises(smemkit.CompileError) as caught:
        kernel(before + KERNEL.format(body))
    assert message in str(caught.value)


# ---- successive launches ----------------------------------------------------------------------------------------

FILE_SCOPE_KERNEL = "__shared__ int s[61];\n" + KERNEL.format(
    "s[t] = t; if (t == 0) s[61 + x[0]] = 1; x[t] = s[t];"
)


@pytest.mark.parametrize("past_end", [0, 1])
def test_launch_after_an_overrun_starts_clean(past_end):
    """Also for a file-scope variable: no launch sees what an earlier one wrote."""
    k = kernel(FILE_SCOPE_KERNEL)
    for _ in range(2):
        with pytest.raises(
            smemkit.Error, match=rf"{4 * past_end} bytes past the end of the shared variable s of 244"
        ):
            k[1, 32](np.full(32, past_end, np.int32))
        x = np.full(32, -61, np.int32)
        k[1, 32](x)
        assert_array_equal(x, [1, *range(1, 32)])


def test_unused_file_scope_variables_do_not_count():
    """In any number of files; only the variables that a kernel uses count towards its 48 KB."""
    declared = " ".join(f"__shared__ int s{i}[300];" for i in range(40))
    used = " ".join(f"s{i}[t] = {i};" for i in range(40))
    for n in range(2):
        x = np.zeros(32, np.int32)
        kernel(declared + KERNEL.format(f"{used} x[t] = {n} + s39[t];"))[1, 32](x)
        assert_array_equal(x, n + 39)
    k = kernel("__shared__ int a[6000], b[7000];\n" + KERNEL.format("a[t] = b[t] = t;"))
    for _ in range(2):  # also at the second launch
        with pytest.raises(smemkit.Error, match=r"too much static shared memory: 52000 bytes with [ab]"):
            k[1, 32](np.zeros(32, np.int32))


# ---- out of memory ----------------------------------------------------------------------------------------------

FAILING_MMAP_SOURCE = """
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
size_t protect_from = -1, protect_to = -1, map_from = -1, map_to = -1;
int mprotect(void *at, size_t bytes, int how)
{
    if (bytes < protect_from || bytes > protect_to)
        return (int)syscall(SYS_mprotect, at, bytes, how);
    errno = ENOMEM;
    return -1;
}
void *mmap(void *at, size_t bytes, int how, int flags, int file, off_t offset)
{
    if (bytes < map_from || bytes > map_to)
        return (void *)syscall(SYS_mmap, at, bytes, how, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}
"""
NO_MEMORY_SCRIPT = """
import ctypes, numpy, smemkit
smemkit.set_num_threads(1)
limit = lambda name, value: setattr(ctypes.c_size_t.in_dll(ctypes.CDLL(None), name), "value", value)
source = "extern __shared__ int s[];"
k = smemkit.Kernel(source + "__global__ void k(int *x) {{ int t = threadIdx.x; x[t] = s[t] = 1; }}")
x = numpy.zeros(32, numpy.int32)
with smemkit.Device("cpu"):
    print(smemkit.check(k[1, 32, 40000], x).ok)
    limit("{call}_to", {most})
    limit("{call}_from", {least})
    try:
        print(smemkit.check(k[1, 32, 44000], x).ok)
    except MemoryError as error:
        print(error)
    limit("{call}_from", 2**64 - 1)
    print(smemkit.check(k[1, 32, 44000], x).ok)
"""


@pytest.mark.parametrize(
    ("call", "least", "most", "message"),
    [
        ("protect", 1, 45056, "no memory for the shared memory of a block"),
        ("map", 1 << 19, 1 << 24, "no memory for the checker"),  # shadow memory of the dynamic array
        ("map", 33 << 20, 1 << 32, "no memory for the checker"),  # shadow memory of static variables
    ],
    ids=["the array", "the dynamic shadow", "the static shadow"],
)
@pytest.mark.covering(most=1)
def test_check_without_memory_raises(call, least, most, message, tmp_path):
    (tmp_path / "refuses.c").write_text(FAILING_MMAP_SOURCE)
    library = tmp_path / "refuses.so"
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "refuses.c", "-o", library], check=True)
    script = NO_MEMORY_SCRIPT.format(call=call, least=least, most=most)
    done = run_python("-c", script, LD_PRELOAD=str(library))
    assert done.stdout.splitlines() == ["True", message, "True"], done.stdout + done.stderr
