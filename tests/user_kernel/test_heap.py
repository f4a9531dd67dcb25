"""malloc, free, new and delete of kernels: memory with bounds, which is not given again before the launch ends."""

from functools import cache

import numpy as np
import pytest

import smemkit

SOURCE = """
#define MAYBE if (true)
struct Value {
    int value;
    __device__ Value(int value) : value(value) {}
    __device__ virtual int get() const { return value; }
};
struct Pool { int freed; __device__ void free(int i) { freed = i; } };
struct Nodes {
    Value *first;
    __device__ Value *malloc(int) { return first; }
    static void __device__ free(Value *) {}
};
struct Pair { int a, b; };
struct Pairs { __device__ Pair malloc(int a) const { return {a, a}; } };

__global__ void right(int *y)
{
    Value *own = new Value(y[threadIdx.x]);
    int *four = (int *)std::malloc(16);
    Pool pool;
    four[3] = 2, pool.free(four[3]);
    y[threadIdx.x] = own->get() + pool.freed;
    free(four);
    ::free(nullptr);
    delete own;
}
__global__ void empty(int *y) { void *p = malloc(y[0]); free(p), free(p == 0 ? nullptr : malloc(0)), y[0] = 5; }
__global__ void after_directives(int *y)
{
    int *p = (int *)malloc(8), *q = (int *)malloc(8);
#ifndef NO_FREE
    free(p);
#endif
#pragma unroll
    for (int i = 0; i < 1; i++)
        MAYBE free(q);
    y[0] = 6;
}
__global__ void own_functions(int *y)
{
    Value seven(7);
    Nodes nodes = {&seven};
    y[0] = nodes.malloc(1)->get() + Pairs().malloc(y[0]).b;
    nodes.free(&seven);
}
struct Node { int value; bool freed; };
__device__ Node *malloc(Node &node) { return &node; }
__device__ void free(Node *node) { node->freed = true; }
namespace own {
__device__ void free(int *x) { *x += 1; }
__device__ void add_two(int *x) { free(x), free(x); }
}
struct Counter {
    int count;
    __device__ void free(int n) { count += n; }
    __device__ void both() { free(1), free(2); }
};
__global__ void overloads(int *y)
{
    Node node = {3, false};
    free(malloc(node));
    int *four = (int *)malloc(16);
    four[3] = 4;
    Counter counter = {0};
    counter.both();
    own::add_two(y);
    y[0] += node.value * node.freed + four[3] + counter.count;
    free(four), ::free((void *)nullptr);
}
struct Table { void (*free)(int *); };
__global__ void variables(int *y)
{
    void (*free)(int *) = own::add_two;
    Table table = {own::add_two};
    auto malloc = [](int n) { return n + 10; };
    free(y), table.free(y);
    y[0] += malloc(3);
}
__global__ void forty_thousand(int *y)
{
    for (int i = 0; i < 40000; i++) {
        int *p = (int *)malloc(16);
        p[y[0]] = 1, y[1] += p[y[0]];
        free(p);
    }
}
__device__ int *kept;
__global__ void keeps() { kept = new int[2], kept[1] = 7; }
__global__ void takes(int *y) { y[0] = kept[1], delete[] kept; }
__global__ void past_the_end(int *y) { kept = (int *)malloc(16), kept[4 + y[0]] = 3; }
__global__ void after_free(int *y) { int *p = new int[2]; p[y[0]] = 1; delete[] p; y[0] = p[y[0]]; }
__global__ void twice(int *y) { int *p = (int *)malloc(8); p[y[0]] = 1; free(p); free(p); }
__global__ void deleted_twice(int *y) { int *p = new int; *p = y[0]; delete p; asm("" : "+r"(p)); delete p; }
__global__ void of_an_argument(int *y) { free(y); }
"""


def line_of(text):
    return 1 + SOURCE[: SOURCE.index(text)].count("\n")


FAULTS = {
    "past_the_end": ("out_of_bounds", "past the end of a buffer of 16 bytes"),
    "after_free": ("out_of_bounds", "which the kernel has freed"),
    "twice": ("trap", "has freed already"),
    "deleted_twice": ("trap", "has freed already"),
    "of_an_argument": ("trap", "that the kernel has not allocated"),
}


@cache
def source():
    return smemkit.Kernel(SOURCE)


def test_memory_of_each_thread_is_its_own():
    y = np.arange(32, dtype=np.int32)
    source()["right"][1, 32](y)
    assert y.tolist() == list(range(2, 34))
    report = smemkit.check(source()["right"][1, 32], y)
    assert not report.faults
    number = line_of("four[3] = 2")
    (store,) = [line for line in report.lines if line.line == number and line.access == "store"]
    assert store.sectors == 32 * store.requests  # no two threads had the same address, one after the other


@pytest.mark.parametrize(
    ("name", "expected"),
    [("empty", 5), ("after_directives", 6), ("own_functions", 7), ("overloads", 12), ("variables", 17)],
)
def test_right_kernels_have_no_fault(name, expected):
    y = np.zeros(1, np.int32)
    source()[name][1, 1](y)
    assert y[0] == expected
    assert not smemkit.check(source()[name][1, 1], np.zeros(1, np.int32)).faults


def test_a_loop_may_allocate_and_free_as_often_as_it_likes():
    y = np.zeros(2, np.int32)
    source()["forty_thousand"][1, 1](y)
    assert y[1] == 40000


def test_memory_lives_until_a_later_launch_frees_it():
    y = np.zeros(1, np.int32)
    source()["keeps"][1, 1]()
    source()["takes"][1, 1](y)
    assert y[0] == 7


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_heap_are_named(name):
    kind, message = FAULTS[name]
    with pytest.raises(smemkit.Error, match=message):
        source()[name][1, 1](np.zeros(1, np.int32))
    report = smemkit.check(source()[name][1, 1], np.zeros(1, np.int32))
    assert [(fault.kind, fault.line) for fault in report.faults] == [(kind, line_of(f"void {name}("))]


def test_messages_have_the_names_of_the_source():
    with pytest.raises(smemkit.CompileError, match=r"kernel.cu:1: .*'(void )?free") as caught:
        smemkit.Kernel("__global__ void k(int *x) { free(); }")
    assert "smemkit" not in str(caught.value)


NAMES = {
    "a pointer in a struct": """
struct S { void (*free)(int *); };
__device__ void five(int *x) { *x = 5; }
__global__ void k(int *y) { S s = {five}, *p = &s; (*p->free)(y), (*(*p).free)(y); }""",
    "a pointer to a member": """
struct Pool { int n; __device__ void free(int i) { n = i; } };
__global__ void k(int *y) { Pool p = {0}; auto m = &Pool::free; (p.*m)(5), y[0] = p.n; }""",
    "variables": "__global__ void k(int *y) { int free(3); int malloc(2); y[0] = free + malloc; }",
    "lambdas": """
template <class F> __device__ void call(F free) { free(5); }
__global__ void k(int *y) { auto free = [=](int a) { y[0] = a; }; auto &malloc = free; free(4), call(malloc); }""",
    "macros": """
#define free(x) y[0] = x
__global__ void k(int *y) { free(5); }""",
    "the heap's functions through pointers and macros": """
#include <cstdlib>
#define JOIN(a, b) a##b
using std::free, std::malloc;
__global__ void k(int *y)
{
    void (*release)(void *) = free, *p = malloc(8), *q = JOIN(mal, loc)(8);
    *(int *)p = 5, y[0] = *(int *)p, release(p), JOIN(fr, ee)(q);
}""",
    "kernels": """
__global__ void free(int *y) { y[0] = 5; }
__global__ void max(int *y) { y[0] = max(y[0], 5); }""",
}


@pytest.mark.parametrize("source", NAMES.values(), ids=NAMES)
@pytest.mark.covering(most=6)
def test_a_source_may_give_the_names_to_what_it_likes(source):
    y = np.zeros(1, np.int32)
    kernel = smemkit.Kernel(source, "k" if " k(" in source else "free")
    kernel[1, 1](y)
    assert y[0] == 5
    assert not smemkit.check(kernel[1, 1], y).faults
