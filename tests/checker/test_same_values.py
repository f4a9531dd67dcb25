"""Races of stores: a warning only where the source proves that all threads store the same value."""

import functools

import numpy as np
import pytest

import smemkit

PREAMBLE = r"""
#define TID threadIdx.x
#define GET_ID int id = blockIdx.x * blockDim.x + threadIdx.x
#define STEP stepped += threadIdx.x
#define ADD(name) name += threadIdx.x
#define CHOICE 1; out[0] = threadIdx.x
#define NEGATIVE(x) -x++
#define BY_REFERENCE &renamed
#define STORING (out[0] = threadIdx.x)
#define ALIAS aliased
#define WIDTH 4
#define AREA (WIDTH * WIDTH)
#include <cooperative_groups.h>
using Reference = unsigned &;
__device__ unsigned mine() { return threadIdx.x; }
__device__ void get(unsigned &v) { v = threadIdx.x; }
__device__ void get_at(unsigned *v) { *v = threadIdx.x; }
__device__ unsigned lane_of()
{
    unsigned r;
    asm("mov.u32 %0, %%laneid;" : "=r"(r));
    return r;
}
__device__ void set(unsigned *p, unsigned value)
{
    *p = value;
}
template <class T> __device__ void set_any(T *p)
{
    *p = 1;
}
__device__ void mark(unsigned *p)
{
    *p = 1;
}
__device__ unsigned counter;
__constant__ unsigned limit;
constexpr unsigned DEPTH = 3;
static const int ROWS = 2 * DEPTH + WIDTH;
"""
CLASSES = r"""
struct P { unsigned x, y; };
struct Index
{
    unsigned v;
    __device__ Index() : v(threadIdx.x) {}
    __device__ Index(int n) : v(n + threadIdx.x) {}
    __device__ operator unsigned() const { return v; }
};
struct Alias
{
    unsigned &r;
    __device__ Alias(unsigned &v) : r(v) {}
};
__device__ unsigned operator+(P p, unsigned &v) { return v += threadIdx.x; }
template <class T> struct Box
{
    unsigned v;
    __device__ Box() : v(threadIdx.x) {}
    __device__ operator unsigned() const { return v; }
};
template <const int DEFAULT = 3, class T = int> struct Storing
{
    T data;
    __device__ void store(unsigned *out)
    {
        out[0] = DEFAULT;
    }
};
struct Queue { __device__ bool push(unsigned *p) { *p = threadIdx.x; return true; } };
struct Member
{
    unsigned v;
    __device__ void store(unsigned *out)
    {
        {
            const unsigned v = 1;
            out[1 + threadIdx.x + v] = v;
        }
        out[0] = v;
    }
};
"""

# Kernels' bodies: "|" ends a line, "\" continues a body.
DIFFERENT = r"""
unsigned v = threadIdx.x; | out[0] = v;
unsigned v(threadIdx.x); | out[0] = v;
unsigned v{threadIdx.x}; | out[0] = v;
const auto v(threadIdx.x); | out[0] = v;
auto const v{threadIdx.x % 32}; | out[0] = v;
unsigned w = 1, v(threadIdx.x); | out[0] = v + w;
unsigned a = 5, b(threadIdx.x); | unsigned d = b; | out[0] = d;
unsigned v = 1; | { | unsigned v(threadIdx.x); | out[0] = v; | }
unsigned v(threadIdx.x); | { | const unsigned v = 1; | out[64 + threadIdx.x] = v; | } | out[0] = v;
const unsigned v = 1; | for (unsigned v : {threadIdx.x}) | out[0] = v;
dim3 d(threadIdx.x, 1, 1); | out[0] = d.x;
uint3 t(threadIdx); | out[0] = t.x;
uint3 t = threadIdx; | out[0] = t.x;
uint3 blockIdx = threadIdx; | out[0] = blockIdx.x;
const dim3 blockDim(threadIdx.x, 1, 1); | out[0] = blockDim.x;
out[0] = TID;
GET_ID; | out[0] = id;
const int id = 1; | out[64 + threadIdx.x] = id; | { | GET_ID; | out[0] = id; | }
unsigned stepped = 0; | STEP; | out[0] = stepped;
unsigned v = 0; | ADD(v); | out[0] = v;
unsigned v = 0; | out[64 + threadIdx.x] = NEGATIVE(threadIdx.x + v); | out[0] = v;
unsigned v = 0; | unsigned BY_REFERENCE = v; | renamed = threadIdx.x; | out[0] = v;
unsigned aliased = 0; | ALIAS = threadIdx.x; | out[0] = aliased;
out[0] = CHOICE;
if (STORING > 70) out[0] = 1;
unsigned v = mine(); | out[0] = v;
out[0] = mine();
unsigned l = lane_of(); | out[0] = l;
unsigned v = 0; | get(v); | out[0] = v;
unsigned v = 0; | get_at(&v); | out[0] = v;
unsigned v = 0; | memcpy(&v, in + threadIdx.x, 4); | out[0] = v;
unsigned v = 0; | asm("mov.u32 %0, %%tid.x;" : "=r"(v)); | out[0] = v;
unsigned v = 0; | unsigned *p = &v; | *p = threadIdx.x; | out[0] = v;
unsigned v = 0; | unsigned &p = v; | p = threadIdx.x; | out[0] = v;
unsigned v = 0; | auto &&p = v; | p = threadIdx.x; | out[0] = v;
unsigned v = 0; | unsigned &p(v); | p = threadIdx.x; | out[0] = v;
unsigned v = 0; | unsigned &p{v}; | p = threadIdx.x; | out[0] = v;
unsigned v = 0, w = 0; | unsigned &p = n ? v : w; | p = threadIdx.x; | out[0] = v;
unsigned v = 0; | unsigned &p = (v); | p = threadIdx.x; | out[0] = v;
unsigned v = 0; | Reference p = v; | p = threadIdx.x; | out[0] = v;
unsigned v = 0; | (v) = threadIdx.x; | out[0] = v;
unsigned v = 0; | auto f = [&] { v = threadIdx.x; }; | f(); | out[0] = v;
unsigned v = 0; | auto f = [&]() -> unsigned & { return v; }; | f() = threadIdx.x; | out[0] = v;
auto f = [](unsigned *out) { | const unsigned v = 1; | out[1] = v; | }; | \
f(out + 64 + threadIdx.x); | unsigned v(threadIdx.x); | out[0] = v;
auto f = [&](unsigned n) { | out[0] = n; | }; | f(threadIdx.x);
unsigned i(threadIdx.x); | unsigned v = in[i]; | out[0] = v;
const unsigned *p(in + threadIdx.x); | unsigned v = *p; | out[0] = v;
in += threadIdx.x; | unsigned v = *in; | out[0] = v;
out[0] = in[threadIdx.x];
n += threadIdx.x; | out[0] = n;
out[0] = n++;
unsigned v; | if (threadIdx.x < 3) | v = 1; | else | v = 2; | out[0] = v;
unsigned v = 0; | if (threadIdx.x & 1) | v = 1; | out[0] = v;
unsigned v = 0; | if (threadIdx.x & 1) | v++; | out[0] = v;
unsigned v = threadIdx.x & 1 ? 3 : 4; | out[0] = v;
for (unsigned i = 0; i < 4; i++) | out[0] = i;
for (unsigned i(threadIdx.x); i < 64; i += 64) | out[0] = i;
unsigned i = 0; | while (i++ < 4) | out[0] = i;
for (unsigned i = 0; i < 4; i++) { | const unsigned v = i; | out[0] = v; | }
unsigned a[1] = {threadIdx.x}; | for (unsigned x : a) | out[0] = x;
unsigned v[2] = {threadIdx.x, 1}; | auto [a, b] = v; | out[0] = a;
unsigned v[2]; | v[0] = threadIdx.x; | out[0] = v[0];
unsigned long v = 0; | out[0] = (unsigned long)&v;
if (threadIdx.x & 1) out[0] = 1; else out[0] = 2;
if (threadIdx.x == 70) out[0] = 1; else out[0] = threadIdx.x;
unsigned *p = out; | if (threadIdx.x == 70) out[0] = 1; else *p = threadIdx.x;
out[0] = 1; out[0] = 2;
set(out, threadIdx.x);
set(out, 1); | set(out, 2);
for (unsigned DEPTH : {threadIdx.x}) | out[0] = DEPTH;
set_any(out); | set_any((float *)out);
if (threadIdx.x < 63) set_any(out); else set_any((float *)out);
counter = threadIdx.x; | out[0] = counter;
unsigned v = cooperative_groups::this_thread_block().thread_rank(); | out[0] = v;
unsigned v = atomicAdd(&counter, 1u); | out[0] = v;
unsigned v = __shfl_down_sync(~0u, threadIdx.x, 1); | out[0] = v;
unsigned v = clock(); | out[0] = v;
unsigned v = __activemask() + threadIdx.x; | out[0] = v;
__shared__ unsigned s; | s = threadIdx.x; | out[0] = s;
__shared__ unsigned s; | unsigned v(threadIdx.x); | s = v; | __syncthreads(); | out[threadIdx.x] = s;
__shared__ unsigned s; | unsigned v(in[threadIdx.x]); | if (v > 30) | s = v; | __syncthreads(); | \
 out[threadIdx.x] = s;
__shared__ unsigned s; | s = 0; | unsigned v(threadIdx.x); | if (v < 7) | s = 1; | out[threadIdx.x] = s;
__shared__ unsigned s; | switch (threadIdx.x & 1) { | case 0: | s = 1; | case 1: | out[threadIdx.x] = s; | }
__shared__ unsigned s[32]; | s[threadIdx.x / 2] = 1; | out[threadIdx.x] = s[31 - threadIdx.x / 2];
__shared__ unsigned s[32]; | unsigned i = threadIdx.x / 2; | s[i] = 1; | i = 31 - i; | out[threadIdx.x] = s[i];
"""
SAME = r"""
out[0] = 1;
out[0] = 'a';
out[0] = 1.5f * (2 + 0x10u) / sizeof(int);
out[0] = n;
out[0] = n * 2 - (unsigned)limit;
*out = true;
out[threadIdx.x / 2] = ROWS;
out[0] = AREA + DEPTH;
out[0] = blockDim.x * blockIdx.x + gridDim.y;
const unsigned v = n + 1; | out[0] = v;
unsigned v = blockIdx.x; | out[0] = v;
const int v = 3, w = threadIdx.x; | out[0] = v; | out[64 + w] = v;
for (unsigned i = 0; i < n; i += 1) { | const auto v = n * 2; | out[0] = v; | }
for (unsigned i = threadIdx.x; i < n; i += blockDim.x) | out[0] = 1;
if (in[threadIdx.x] < n && in[n] == 5) | out[0] = n;
if (in[threadIdx.x] < n) out[0] = 1;
if (mine() > 2) { out[0] = 1; }
for (int i = 0; i < 4; i++) out[0] = 1;
unsigned t = threadIdx.x; out[t / 2] = 1;
mark(out);
__shared__ bool done; | done = false; | __syncthreads(); | \
if (threadIdx.x & 1) | done = true; | __syncthreads(); | out[threadIdx.x] = done;
__shared__ int s; | s = 1; | out[threadIdx.x] = s;
__shared__ int s[2]; | s[1] = n; | out[threadIdx.x] = s[1];
__shared__ int s[2]; | __shared__ int *p; | p = s; | __syncthreads(); | out[threadIdx.x] = p != nullptr;
"""
DIFFERENT_WITH_CLASSES = r"""
P p{threadIdx.x, 1}; | out[0] = p.x;
P p = {threadIdx.x, 1}; | out[0] = p.x;
auto [a, b] = P{threadIdx.x, 1}; | out[0] = a;
const unsigned a = 1; | out[64 + threadIdx.x] = a; | { | auto [a, b] = P{threadIdx.x, 1}; | out[0] = a; | }
Index i; | out[0] = i;
Index i = 1; | out[0] = i;
Index i; | unsigned k = i; | out[0] = k;
Index *p = (Index *)out; | p[0] = 1;
unsigned v = 0; | Alias a = v; | a.r = threadIdx.x; | out[0] = v;
unsigned v = 0; | P p = {1, 2}; | p + v; | out[0] = v;
Queue q; | if (q.push(out) && n == 70) out[0] = 1;
Queue q; | if (q.push(out)) out[0] = 1;
const unsigned v = 1; | out[64 + threadIdx.x] = v; | { | Box<int> v; | out[0] = v; | }
Storing<1> a; | Storing<2> b; | threadIdx.x < 63 ? a.store(out) : b.store(out);
Member m = {threadIdx.x}; | m.store(out);
"""
SAME_WITH_CLASSES = r"""
out[0] = 1;
const unsigned v = 2 * AREA; | out[0] = v;
P p = {1, threadIdx.x}; | if (p.y > 3) | out[0] = AREA;
"""


def bodies(text):
    return [line for line in text.replace("\\\n", "").splitlines() if line]


@functools.cache
def module(bodies, head=""):
    """One library with a kernel for each body."""
    parameters = "unsigned *out, const unsigned *in, unsigned n"
    kernels = (
        f"__global__ void k{i}({parameters})\n{{\n{body.replace(' | ', chr(10))}\n}}\n"
        for i, body in enumerate(bodies)
    )
    return smemkit.Kernel(PREAMBLE + head + "\n".join(kernels))


def races(text, body, head="", grid=1, block=64):
    kernel = module(tuple(bodies(text)), head)[f"k{bodies(text).index(body)}"]
    report = smemkit.check(kernel[grid, block], np.zeros(256, np.uint32), np.arange(256, dtype=np.uint32), 5)
    found = [fault for fault in report.faults if fault.kind == "race"]
    assert found, report
    return report, found


@pytest.mark.parametrize("body", bodies(DIFFERENT))
def test_stores_that_may_differ_are_errors(body):
    report, found = races(DIFFERENT, body)
    assert "error" in {fault.severity for fault in found}, report


@pytest.mark.parametrize("body", bodies(DIFFERENT_WITH_CLASSES))
def test_stores_of_what_a_class_computes_are_errors(body):
    report, found = races(DIFFERENT_WITH_CLASSES, body, CLASSES)
    assert "error" in {fault.severity for fault in found}, report


@pytest.mark.parametrize("body", bodies(SAME))
def test_stores_of_one_proved_value_are_warnings(body):
    report, found = races(SAME, body)
    assert report.ok, report
    assert {fault.severity for fault in found} == {"warning"}


@pytest.mark.parametrize("body", bodies(SAME_WITH_CLASSES))
def test_stores_of_one_proved_value_beside_classes_are_warnings(body):
    report, _ = races(SAME_WITH_CLASSES, body, CLASSES)
    assert report.ok, report


@pytest.mark.parametrize("body", [body for body in bodies(SAME) if "blockIdx" in body])
def test_blocks_that_store_their_index_are_an_error(body):
    report, found = races(SAME, body, grid=2, block=1)
    assert "error" in {fault.severity for fault in found}, report


@pytest.mark.parametrize("body", [body for body in bodies(SAME) if body.startswith(("out[0] = n", "out[0] = 1;"))])
def test_blocks_that_store_one_value_are_a_warning(body):
    report, _ = races(SAME, body, grid=2, block=1)
    assert report.ok, report


def test_structs_of_data_leave_values_proved():
    source = "struct P { int x, y; };\n__global__ void k(int *out, int n)\n{\n    out[0] = n;\n}\n"
    assert smemkit.check(smemkit.Kernel(source)[1, 64], np.zeros(64, np.int32), 5).ok


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("#define STEP(name) name##1 += threadIdx.x", "unsigned v1 = 0; | STEP(v); | out[0] = v1;"),
        ("#ifdef NEVER\n#define LANE 1\n#endif", "const unsigned LANE(threadIdx.x); | out[0] = LANE;"),
        ("#define LANE 1\n#undef LANE", "for (unsigned LANE : {threadIdx.x}) | out[0] = LANE;"),
        ("#define true (threadIdx.x & 1)", "out[0] = true;"),
        ("#ifdef NEVER\n#define true 1\n#endif\n#define true (threadIdx.x & 1)", "out[0] = true;"),
        (f"{CLASSES}\n#define uint Index", "const uint v = 1; | out[0] = v;"),
        ('__device__ unsigned operator""_th(unsigned long long n) { return n + threadIdx.x; }', "out[0] = 1_th;"),
        ("", "decltype(*out) r = n; | r = threadIdx.x; | out[0] = n;"),
    ],
)
def test_names_that_mean_something_else_are_not_proved(head, body):
    body = body.replace(" | ", "\n")
    kernel = smemkit.Kernel(f"{head}\n__global__ void k(unsigned *out, unsigned n)\n{{\n{body}\n}}\n")
    assert not smemkit.check(kernel[1, 64], np.zeros(64, np.uint32), 5).ok


TEMPLATE = """template <int N, class T> __global__ void k(T *out)
{
    out[0] = N;
}
"""


def test_a_template_argument_is_one_value_in_a_kernel():
    kernel = smemkit.Kernel(TEMPLATE)["k<3, float>"]
    assert smemkit.check(kernel[1, 64], np.zeros(64, np.float32)).ok


def test_a_template_argument_of_another_function_may_differ():
    source = """
template <unsigned N> __device__ void set(unsigned *out)
{
    out[0] = N;
}
__global__ void k(unsigned *out)
{
    if (threadIdx.x & 1)
        set<1>(out);
    else
        set<2>(out);
}
"""
    assert not smemkit.check(smemkit.Kernel(source)[1, 64], np.zeros(64, np.uint32)).ok
