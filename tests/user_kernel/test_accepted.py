"""Constructs that nvcc accepts and that real files use: all in one source, with a kernel for each."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import smemkit

HEAD = """
#include <cstdio>
#include <fenv.h>
#include <functional>
#include <memory>
#include <cuComplex.h>
#include <cublas_v2.h>
#include <cufft.h>
#include <cusparse.h>
#define TYPEDEF(name, type) typedef type name
#define STRUCT(name) struct name { int a; };
#define RELAXED __NV_ATOMIC_RELAXED
#define KERNEL(name) __global__ void name
TYPEDEF(number, int);
STRUCT(one_number)
"""

# kernel: code before it, its body, what it writes to y[0], y[1], ... in a block of 32 threads
SNIPPETS = {
    "shuffles_overloaded": (
        """
        __device__ float2 __shfl_down_sync(unsigned mask, float2 v, unsigned by, int width = 32)
        {
            return make_float2(__shfl_down_sync(mask, v.x, by, width), __shfl_down_sync(mask, v.y, by, width));
        }
        __device__ double __shfl_down(double v, unsigned by)
        {
            const int low = __double2loint(v), high = __double2hiint(v);
            return __hiloint2double(__shfl_down_sync(~0u, high, by), __shfl_down_sync(~0u, low, by));
        }
        __device__ int __any(int predicate) { return __any_sync(~0u, predicate); }
        """,
        """
        const float2 v = __shfl_down_sync(~0u, make_float2(i, 2 * i), 3);
        const double d = __shfl_down(i + 0.5, 2); // an int where the user's function takes an unsigned
        if (i == 1) y[0] = v.x, y[1] = v.y, y[2] = 2 * d;
        const int any = __any(i == 7);
        if (i == 0) y[3] = any;
        """,
        [4, 8, 7, 1],
    ),
    "recursion_forced_inline": (
        """
        __forceinline__ __device__ int odd(int n);
        __forceinline__ __device__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
        __forceinline__ __device__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
        __forceinline__ __device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
        """,
        "y[0] = factorial(5); y[1] = even(7); y[2] = odd(7);",
        [120, 0, 1],
    ),
    "noinline": (
        """
        __noinline__ __device__ int twice(int x) { return 2 * x; }
        __device__ __noinline__ int thrice(int x) { return 3 * x; }
        __attribute__((noinline)) __device__ int negative(int x) { return -x; }
        """,
        "y[0] = twice(1); y[1] = thrice(1); y[2] = negative(1);",
        [2, 3, -1],
    ),
    "function_pointers": (
        """
        typedef int (*function)(int, int);
        __device__ int add(int a, int b) { return a + b; }
        __device__ int multiply(int a, int b) { return a * b; }
        __device__ function table[] = {add, multiply};
        __constant__ function constant_table[] = {multiply};
        template <int (*F)(int, int)> __device__ int apply(int a, int b) { return F(a, b); }
        """,
        "function f = y ? add : multiply; y[0] = f(2, 3); y[1] = table[1](2, 3); y[2] = constant_table[0](3, 4);\n"
        "y[3] = apply<add>(4, 5);",
        [5, 6, 12, 9],
    ),
    "variables": (
        """
        __constant__ int squares[2][2] = {{1, 4}, {9, 16}};
        __managed__ int managed = 3;
        __device__ __managed__ int managed_array[2];
        __device__ int counter;
        static __constant__ struct { int a; double b; } pair = {5, 0.5};
        """,
        "atomicAdd(&counter, 1); __syncthreads(); managed_array[1] = managed;\n"
        "y[0] = squares[1][0]; y[1] = managed_array[1]; y[2] = counter; y[3] = pair.a; y[4] = pair.b * 2;",
        [9, 3, 32, 5, 1],
    ),
    "device_heap": (
        """
        struct Base { __device__ virtual ~Base() {} __device__ virtual int value() const { return 1; } };
        struct Derived : Base {
            int a;
            __device__ Derived(int a) : a(a) {}
            __device__ int value() const override { return a; }
        };
        """,
        """
        int *p = (int *)malloc(4 * sizeof(int)), *q = new int[2];
        Base *object = new Derived(6);
        p[3] = 4; q[1] = 5;
        if (i == 0) y[0] = p[3], y[1] = q[1], y[2] = object->value();
        free(p); delete[] q; delete object;
        """,
        [4, 5, 6],
    ),
    "atomics_of_the_compiler": (
        "__device__ int cell, other;",
        """
        if (i == 0) {
            int expected = 7, wanted = 9, old;
            __nv_atomic_store_n(&cell, 7, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
            y[0] = __nv_atomic_load_n(&cell, __NV_ATOMIC_ACQUIRE);
            y[1] = __nv_atomic_compare_exchange(&cell, &expected, &wanted, false, __NV_ATOMIC_SEQ_CST, RELAXED);
            y[2] = __nv_atomic_compare_exchange_n(&cell, &expected, 1, false, __NV_ATOMIC_SEQ_CST, RELAXED);
            y[3] = expected;
            __nv_atomic_exchange(&cell, &wanted, &old, RELAXED);
            y[4] = old + __nv_atomic_exchange_n(&cell, 20, RELAXED);
            y[5] = __nv_atomic_fetch_add(&cell, 2, RELAXED) + __nv_atomic_fetch_sub(&cell, 1, RELAXED);
            y[6] = __nv_atomic_fetch_or(&cell, 8, RELAXED) + __nv_atomic_fetch_and(&cell, 12, RELAXED);
            y[7] = __nv_atomic_fetch_xor(&cell, 5, RELAXED) + __nv_atomic_fetch_min(&cell, 3, RELAXED);
            __nv_atomic_max(&cell, 50, RELAXED);
            __nv_atomic_load(&cell, &y[8], RELAXED);
            __nv_atomic_store(&other, &y[8], RELAXED);
            __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_DEVICE);
            y[9] = other;
        }
        """,
        [7, 1, 0, 9, 18, 42, 50, 21, 50, 50],
    ),
    "types_of_macros": ("", "number n = 3; one_number s = {4}; y[0] = n; y[1] = s.a;", [3, 4]),
    "complex_numbers": (
        "",
        "const cuDoubleComplex z = cuCmul(make_cuDoubleComplex(1, 2), make_cuDoubleComplex(3, 4));\n"
        "const cuComplex w = cuCdivf(make_cuComplex(-5, 10), make_cuComplex(3, 4));\n"
        "y[0] = cuCreal(z); y[1] = cuCimag(z); y[2] = lrint(w.x); y[3] = lrint(w.y);\n"
        "y[4] = cuCabs(make_cuDoubleComplex(3, -4)); y[5] = cuCfma(z, z, z).x; y[6] = cuConjf(w).y;",
        [-5, 10, 1, 2, 5, -80, -2],
    ),
    "halves_by_cublas": (
        "",
        "const __half2 h = __floats2half2_rn(1.5f, 2); y[0] = 2 * __low2float(h); y[1] = __bfloat162float(3);",
        [3, 3],
    ),
    "rounding_of_fenv": ("", "y[0] = FE_TONEAREST == fegetround(); y[1] = nearbyint(2.5);", [1, 2]),
}  # fmt: skip


def all_snippets():
    kernels = [
        f"{before}\n__global__ void {name}(int *y) {{ const int i = threadIdx.x; (void)i;\n{body}\n}}"
        for name, (before, body, _) in SNIPPETS.items()
    ]
    return "\n".join([HEAD, *kernels, "KERNEL(named_by_a_macro)(int *y) { y[0] = 17; }"])


@cache
def source():
    return smemkit.Kernel(all_snippets())


@pytest.mark.parametrize("name", SNIPPETS)
def test_construct_compiles_and_runs(name):
    expected = SNIPPETS[name][2]
    y = np.full(12, -99, np.int32)
    source()[name][1, 32](y)
    assert_array_equal(y[: len(expected)], expected)
    assert not source().skipped


def test_a_macro_may_name_a_kernel():
    y = np.zeros(1, np.int32)
    source()["named_by_a_macro"][1, 1](y)
    assert y[0] == 17


@pytest.mark.slow
def test_constructs_are_checked_without_errors():
    for name in SNIPPETS:
        report = smemkit.check(source()[name][1, 32], np.zeros(12, np.int32))
        assert {fault.kind for fault in report.faults if fault.severity == "error"} <= {"race"}, name


def test_a_removed_shuffle_is_named():
    with pytest.raises(smemkit.CompileError, match="__shfl_down_sync with a mask"):
        smemkit.Kernel("__global__ void k(float *x) { *x = __shfl_down(*x, 1); }")


CP_ASYNC = """
template <int SIZE> __device__ void load(void *to, const void *from, int read)
{
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to)); // 32 bits, as a GPU's
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2, %3;\\n"
                 ::"r"(shared), "l"(from), "n"(SIZE), "r"(read));
}
__global__ void k(const float4 *x, float *y)
{
    __shared__ float4 s[32];
    extern __shared__ float4 dynamic[];
    const int i = threadIdx.x;
    load<16>(&s[i], &x[i], i == 31 ? 8 : 16);
    asm volatile("cp.async.commit_group;\\n" ::);
    unsigned address = __cvta_generic_to_shared(&dynamic[i]);
    asm volatile("{\\n.reg .pred p;\\nsetp.ne.b32 p, %3, 0;\\n@p cp.async.ca.shared.global [%0], [%1], %2;\\n}\\n"
                 ::"r"(address), "l"(&x[i]), "n"(16), "r"(i != 5));
    asm volatile("cp.async.wait_all;\\n" ::);
    WAIT
    y[i] = s[31 - i].w + dynamic[i].x;
}
"""


def test_asynchronous_copies_of_inline_ptx():
    x, y = np.arange(1, 129, dtype=np.float32), np.zeros(32, np.float32)
    kernel = smemkit.Kernel(CP_ASYNC.replace("WAIT", "__syncthreads();"))
    kernel[1, 32, 512](x, y)
    others = [i for i in range(32) if i not in (0, 5)]
    assert_array_equal(y[others], x[3::4][::-1][others] + x[::4][others])
    assert y[0] == x[0]  # the last number of s is filled with zeros
    report = smemkit.check(kernel[1, 32, 512], x, y)
    assert {fault.kind for fault in report.faults} == {"uninitialised"}  # of dynamic[5]
    report = smemkit.check(smemkit.Kernel(CP_ASYNC.replace("WAIT", ""))[1, 32, 512], x, y)
    assert "RAW" in {fault.hazard for fault in report.faults if fault.kind == "race"}


# ---- kernels that share a name ----

OVERLOADS = """
struct point { float x; int id; };
namespace shapes {
struct box { double side; };
__global__ void fill(box *b, double side) { b->side = side; }
__global__ void fill(float *x, float value, int n) { if (threadIdx.x < n) x[threadIdx.x] = value; }
}
__global__ void scale(float *x, const int n);
__global__ void scale(float *x, const float factor) { x[threadIdx.x] *= factor; }
__global__ void scale(float x[], int by) { x[threadIdx.x] *= 100 * by; }
__global__ void scale(int *x, int by) { x[threadIdx.x] *= by; }
#if 0
__global__ void scale(double *x, int by) { x[threadIdx.x] *= by; }
#endif
template <class T> __global__ void scale(T *x) { x[threadIdx.x] *= 10; }
"""


def test_arguments_choose_among_kernels_of_one_name():
    kernel = smemkit.Kernel(OVERLOADS)["scale"]
    x, y = np.ones(4, np.float32), np.ones(4, np.int32)
    kernel[1, 4](x, 2.5)
    kernel[1, 4](y, 7)
    assert x[3] == 2.5
    assert y[3] == 7
    report = smemkit.check(kernel[1, 4], np.ones(3, np.int32), 7)
    assert report.launches[0].kernel == "scale(int *, int)"
    assert [fault.kind for fault in report.faults][:1] == ["out_of_bounds"]


def test_a_signature_names_one_of_several_kernels():
    kernels = smemkit.Kernel(OVERLOADS)
    x = np.ones(4, np.float32)
    kernels["scale( float*,int )"][1, 4](x, 2)
    assert x[0] == 200
    kernels["scale<float>"][1, 4](x)
    assert x[0] == 2000
    kernels["shapes::fill(float *, float, int)"][1, 4](x, 3, 2)
    assert_array_equal(x, [3, 3, 2000, 2000])
    box = np.zeros(1, np.dtype([("side", "f8")]))
    kernels["fill"][1, 1](box, 1.5)
    assert box["side"] == 1.5
    assert "scale(int *, int)" in kernels.names
    assert kernels["scale(int *, int)"].parameters == ("x", "by")


def test_kernels_that_the_arguments_do_not_tell_apart_are_listed():
    kernel = smemkit.Kernel(OVERLOADS)["scale"]
    x = np.ones(4, np.float32)
    with pytest.raises(
        ValueError, match=r"several kernels of this name take .*\n.*\n    scale\(float \*, float\)"
    ):
        kernel[1, 4](x, 3)
    with pytest.raises(
        TypeError, match=r"no kernel of this name takes .*float64(.*\n){2}    scale\(float \*, float"
    ):
        kernel[1, 4](np.ones(4), 3)  # the one for double is behind an #if


def test_the_only_name_needs_no_choice():
    kernel = smemkit.Kernel("__global__ void k(int *x) { *x = 1; } __global__ void k(float *x) { *x = 2; }")
    x, y = np.zeros(1, np.int32), np.zeros(1, np.float32)
    kernel[1, 1](x)
    kernel[1, 1](y)
    assert (x[0], y[0]) == (1, 2)


HOST_FUNCTIONS_OF_TYPES = """
#include <cstdint>
#define NOINLINE(x) __attribute__((noinline))
template <typename T> inline T casted(void *p) { return reinterpret_cast<T>(p); }
template <typename T> [[noreturn]] NOINLINE(1) void fail(T) { abort(); }
inline size_t mixed(uint64_t x) { return x * 31; }
static int launched(int *x);
struct pool {
    int *head;
    int *next() { if (!head) fail(1); return *casted<int **>(head); }
    size_t hash(uint64_t x) { return mixed(x); }
};
#define HASHED(name) struct name { size_t of(int x) { return mixed(x); } }
HASHED(by_macro);
__global__ void k(pool p, by_macro m, int *x) { *x = p.head == nullptr; }
"""


def test_host_functions_that_the_members_of_a_type_call_are_kept():
    kernel = smemkit.Kernel(HOST_FUNCTIONS_OF_TYPES)
    assert not kernel.skipped and "mixed" in kernel.notes[0]
    with pytest.raises(smemkit.CompileError, match=r"mixed is host code \(kernel.cu:6\)"):
        smemkit.Kernel(HOST_FUNCTIONS_OF_TYPES.replace("*x = p", "*x = mixed(2) + p"))


def test_a_kernel_that_is_defined_outside_of_its_namespace():
    text = "namespace a { namespace b { __global__ void k(int *x); } }\n"
    text += "__global__ void a::b::k(int *x) { *x = 5; }\nnamespace c { __global__ void k(int *x) { *x = 6; } }"
    kernel, x = smemkit.Kernel(text), np.zeros(1, np.int32)
    assert kernel.names == ("a::b::k", "c::k")
    kernel["a::b::k"][1, 1](x)
    assert x[0] == 5


@pytest.mark.parametrize(
    "kernel", ["static KERNEL(64) void k(int *x)", "KERNEL(64) void k(int *x)", "WHOLE(64) k(int *x)"]
)
def test_a_macro_with_arguments_before_a_kernel_is_not_its_name(kernel):
    text = """#define BOUNDED(n) __launch_bounds__(n)
    #define KERNEL(n) __global__ BOUNDED(n)
    #define WHOLE(n) KERNEL(n) void
    #define ROUND(n) AROUND
    #define AROUND ROUND(1)
    #define OTHER(name) struct name { int a; };
    OTHER(other)
    """
    kernel, x = smemkit.Kernel(text + kernel + "{ *x = sizeof(other); }"), np.zeros(1, np.int32)
    assert kernel.names == ("k",)
    kernel[1, 1](x)
    assert x[0] == 4


ATTRIBUTES = """#define ALIGNED(n) __attribute__((aligned(n)))
#define UNUSED(n) ATTRIBUTE
#define ATTRIBUTE __attribute__((unused))
#define KERNEL(n) __global__ __launch_bounds__(n) __maxnreg__(64)
#define VOID(n, T) __global__ T
#define DEVICE(n) __device__ float
#define OTHER_DEVICE(n) __device__ real
#define GIVEN(x) x
#define TEMPLATE(T) template <class T>
#define IGNORED(x)
#define TWICE(n) ALIGNED(n) UNUSED(n)
"""


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("ALIGNED(16) struct S { int a; };", 4),  # there g++ ignores the attribute
        ("TWICE(16) struct S { int a; };", 4),
        ("struct ALIGNED(16) S { int a; };", 16),
        ("struct ALIGNED(16) UNUSED(0) S { int a; };", 16),
        ("template <class T> struct ALIGNED(16) P { T a; }; typedef P<int> S;", 16),
        ("struct ALIGNED(16) Base { int b; }; struct S : Base { int a[4]; };", 32),
        ("UNUSED(0) typedef float4 S;", 16),
        ("ATTRIBUTE typedef float4 S;", 16),
        ("float4 typedef S;", 16),
        ("typedef struct ALIGNED(16) { int a; } S;", 16),
        ("UNUSED(1) enum S : char { a };", 1),
    ],
)
def test_types_behind_macros_with_arguments_are_kept(text, size):
    x = np.zeros(1, np.int32)
    smemkit.Kernel(f"{ATTRIBUTES}{text}\n__global__ void k(int *x) {{ *x = sizeof(S); }}")[1, 1](x)
    assert x[0] == size


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("KERNEL(256) void f(int *x) { *x = 7; }", ("f",)),
        ("static KERNEL(256) void f(int *x) { *x = 7; }", ("f",)),
        ("VOID(256, void) f(int *x) { *x = 7; }", ("f",)),
        ("GIVEN(__global__) void f(int *x) { *x = 7; }", ("f",)),
        (
            "typedef float real; OTHER_DEVICE(2) h(float x) { return x; } KERNEL(1) void f(int *x) { *x = h(7); }",
            ("f",),
        ),
        ("DEVICE(2) h(float x) { return x; } __global__ void f(int *x) { *x = h(7); }", ("f",)),
        ("IGNORED(1) namespace n { IGNORED(2) __global__ void f(int *x) { *x = 7; } }", ("n::f",)),
        ("IGNORED(1) template <class T> void h(T) {} __global__ void f(int *x) { *x = 7; }", ("f",)),
        (
            "namespace n { __global__ void f(int *x); } __global__ void ATTRIBUTE ::n::f(int *x) { *x = 7; }",
            ("n::f",),
        ),
        (
            "namespace unused { __global__ void f(int *x); } __global__ void unused::f(int *x) { *x = 7; }",
            ("unused::f",),
        ),
    ],
)
def test_kernels_that_macros_with_arguments_mark(text, names):
    kernel, x = smemkit.Kernel(ATTRIBUTES + text + " __global__ void last(int *x) {}"), np.zeros(1, np.int32)
    assert kernel.names == (*names, "last")
    kernel[names[0]][1, 1](x)
    assert x[0] == 7


def test_a_macro_with_the_parameters_of_a_template():
    kernel = smemkit.Kernel(ATTRIBUTES + "TEMPLATE(T) __global__ void k(T *x) { *x = sizeof(T); }")
    x = np.zeros(1, np.float64)
    kernel["k<double>"][1, 1](x)
    assert x[0] == 8
    with pytest.raises(ValueError, match="k<…>"):
        kernel[1, 1](x)


def test_a_macro_that_is_a_kernel_up_to_its_body():
    text = (
        "#define PROTOTYPE(name) __global__ void name(int *x)\nPROTOTYPE(k) { *x = 7; }\nstruct host { int a; };"
    )
    kernel, x = smemkit.Kernel(text, name="k"), np.zeros(1, np.int32)
    kernel[1, 1](x)
    assert x[0] == 7 and smemkit.Kernel(text + "__global__ void last(int *x) {}").names == ("last",)
