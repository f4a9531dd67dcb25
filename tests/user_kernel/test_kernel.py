"""smemkit.Kernel: the user's own kernels, their arguments and errors, and the cache of compiled kernels.

textbook/*.cu are files as printed in books and blogs, with main() and launches. TEXTBOOK has a function for each.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from cases import ROOT, on, run_python
from numpy.testing import assert_allclose, assert_array_equal
from together import Kernels

import smemkit
from smemkit.cuda_source.scanner import scan
from smemkit.user_kernel import cache as cache_module
from smemkit.user_kernel import cccl, compiler, cpu_module, program

TEXTBOOK_FOLDER = ROOT / "tests" / "textbook"


@pytest.fixture(scope="module", autouse=True)
def isolated_cache(tmp_path_factory):
    """A cache that starts without kernels."""
    folder = tmp_path_factory.mktemp("cache")
    copy_precompiled_headers(cache_module.cache_folder(), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMEMKIT_CACHE", str(folder))
        yield folder


def copy_precompiled_headers(cache, folder, builds=("plain", "checked")):
    """Copies the precompiled headers of these builds from a cache. To make one takes a second."""
    command = compiler.find_compiler()
    for build in builds:
        options = compiler._command(command, checked=build == "checked")
        header = compiler._precompiled_header(cache, command, options)
        for path in header.parent.glob(f"{header.name}*"):
            shutil.copy2(path, folder)


@pytest.fixture(autouse=True)
def default_device(request):
    """Makes the test's device the default device, or the CPU if the test has none."""
    name = request.getfixturevalue("device") if "device" in request.fixturenames else "cpu"
    if name != "cpu":
        pytest.importorskip("cuda.core")
    with smemkit.Device(name):
        yield


KERNELS = Kernels()  # for the CPU device


@cache
def kernel_on(_device, source, name=None, options=()):
    """A kernel, compiled once for all tests on a device."""
    return smemkit.Kernel(source, name, options=options)


MACROS = """
#include <cuda_fp16.h>
#define N 4
#define K 2
#define T float
#define P N
#define kind 1
#define element 2
#define value 3
__global__ void k(T *x, const T (*y)[N], __half *h)
{
    x[threadIdx.x] = y[1][threadIdx.x] + __half2float(h[0]) + value;
}
"""


def test_user_macros_do_not_leak(device):
    """Tutorials define N and other short macros, which must not change smemkit's own headers."""
    with smemkit.Device(device):
        kernel = smemkit.Kernel(MACROS)
    x, y = np.zeros(4, np.float32), np.arange(8, dtype=np.float32).reshape(2, 4)
    kernel[1, 4](x, y, np.ones(1, np.float16))
    assert x.tolist() == [8, 9, 10, 11]


# ---- files as printed in books ----------------------------------------------------------------------------------


def floats(*shape):
    return np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)


def run_vector_add(kernel):
    a, b, c = floats(1000), floats(1000), np.zeros(1000, np.float32)
    kernel[4, 256](a, b, c, 1000)
    assert_array_equal(c, a + b)


def run_saxpy(kernel):
    x, y = floats(1000), floats(1000)
    expected = 2 * x + y
    kernel["saxpy<float>"][3, 64](2.0, x, y, x.size)
    assert_array_equal(y, expected)


def run_dot(kernel):
    a, b, c = floats(5000), floats(5000), np.zeros(8, np.float32)
    kernel[8, 256](5000, a, b, c)
    assert c.sum() == a @ b


def run_matmul(kernel):
    a, b, c = floats(19, 35), floats(35, 21), np.zeros((19, 21), np.float32)
    kernel[(2, 2), (16, 16)](a, b, c, 19, 21, 35)
    assert_array_equal(c, a @ b)


def run_transpose(kernel):
    x, y = floats(64, 64), np.zeros((64, 64), np.float32)
    kernel["copy"][(2, 2), (32, 8)](y, x)
    assert_array_equal(y, x)
    kernel["transposeNoBankConflicts"][(2, 2), (32, 8)](y, x)
    assert_array_equal(y, x.T)


def run_histogram(kernel):
    values = np.random.default_rng(0).integers(0, 256, 3000).astype(np.uint8)
    counts = np.zeros(256, np.uint32)
    kernel[2, 256](values, values.size, counts)
    assert_array_equal(counts, np.bincount(values, minlength=256))


def run_stencil(kernel):
    x, y = np.arange(128 + 6, dtype=np.int32), np.zeros(128, np.int32)
    kernel[2, 64](x, y)
    assert_array_equal(y, np.convolve(x, np.ones(7, int), "valid"))
    kernel.constants["weight"] = [0, 0, 0, 2, 0, 0, 0]
    kernel[2, 64](x, y)
    assert_array_equal(y, 2 * x[3:-3])
    assert kernel.constants["blocks_done"] == 4


def run_scan(kernel):
    x, y = floats(64), np.zeros(64, np.float32)
    kernel[1, 32, 4 * 66](y, x, 64)
    assert_array_equal(y, np.cumsum(x) - x)


def run_nbody(kernel):
    body, force = np.abs(floats(64, 4)), np.zeros((64, 4), np.float32)
    kernel[2, 32, 32 * 16](body, force, 64, 32)
    offset = body[None, :, :3].astype(float) - body[:, None, :3]
    weight = body[:, 3] / np.sqrt(((offset**2).sum(-1) + 1e-3) ** 3)
    assert_allclose(force[:, :3], (offset * weight[..., None]).sum(1), rtol=1e-4, atol=1e-2)


def run_julia(kernel):
    image = np.zeros((32, 32, 4), np.uint8)
    kernel[(32, 32), 1](image)
    assert set(np.unique(image[..., 0])) <= {0, 255}
    assert (image[..., 3] == 255).all()
    assert image[16, 16, 0] == 255
    assert image[0, 0, 0] == 0


def run_warp_reduce(kernel):
    x, total = np.ones(1000, np.float16), np.zeros(1, np.float32)
    kernel[2, 128](x, total, 1000)
    assert total == 1000


def run_ray(kernel):
    image = np.zeros((32, 32), np.int32)
    kernel[(4, 4), (8, 8)](image, 32, 32)
    assert image[16, 16] == 1
    assert image[0, 0] == 0
    assert_array_equal(image, image.T)


def run_lock(kernel):
    x, mutex, total = np.arange(1000, dtype=np.int32), smemkit.zeros(1, np.int32), np.zeros(1, np.int32)
    on_device = smemkit.asarray(x)
    lock = np.array((mutex.address,), [("mutex", "u8")])[()]
    span = np.array((on_device.address, x.size), np.dtype("u8,i4", align=True))[()]
    kernel[8, 64](lock, span, total)
    assert total == x.sum()
    assert mutex.item() == 0


TEXTBOOK = {name.removeprefix("run_"): run for name, run in globals().items() if name.startswith("run_")}


def test_every_textbook_file_is_run():
    assert {file.stem for file in TEXTBOOK_FOLDER.glob("*.cu")} == TEXTBOOK.keys() - {"python"}


@pytest.mark.parametrize("name", sorted(TEXTBOOK.keys() - {"python"}))
@pytest.mark.covering(1, most=5)
def test_textbook(name, device):
    TEXTBOOK[name](kernel_on(device, TEXTBOOK_FOLDER / f"{name}.cu"))


def test_notes_say_what_was_left_out():
    kernel = kernel_on("cpu", TEXTBOOK_FOLDER / "saxpy.cu")
    assert kernel.notes == (f"host code was left out: fill ({kernel.filename}:23), main ({kernel.filename}:38)",)
    assert kernel.filename == str(TEXTBOOK_FOLDER / "saxpy.cu")
    assert kernel.source == (TEXTBOOK_FOLDER / "saxpy.cu").read_text()


def test_notes_name_members():
    notes = kernel_on("cpu", TEXTBOOK_FOLDER / "lock.cu").notes[0]
    named = re.findall(r"([\w:~]+) \([^()]*:(\d+)\)", notes)
    assert named[:6] == [
        ("HandleError", "6"),
        ("Lock::Lock", "16"),
        ("Lock::~Lock", "20"),
        ("Span::Span", "36"),
        ("Span::release", "40"),
        ("Span::print", "41"),
    ]


# ---- names of kernels -------------------------------------------------------------------------------------------

SEVERAL_KERNELS = """
namespace outer {
__global__ void one(int *x) { *x = 1; }
namespace inner { __global__ void two(int *x) { *x = 2; } }
}
template <typename T, int N = 3> __global__ void add(T *x) { *x += N; }
#ifdef WITH_FOUR
extern "C" __global__ void four(int *x) { *x = 4; }
#endif
#define DEFINE(name, value) __global__ void name(int *x) { *x = value; }
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [("one", 1), ("outer::one", 1), ("inner::two", 2), ("add<int>", 8), ("add< int, (4 > 3) ? 9 : 1 >", 14)],
)
def test_name(name, expected, device):
    x = np.array([5], np.int32)
    kernel_on(device, SEVERAL_KERNELS)[name][1, 1](x)
    assert x == expected


def test_types_named_only_in_an_instantiation(device):
    source = """
typedef int word;
template <class T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <class T, template <class> class F> __global__ void fold(T *x) { *x = F<T>()(*x, *x); }
int main() { fold<word, plus><<<1, 1>>>(0); }
"""
    x = np.array([21], np.int32)
    kernel_on(device, source)["fold<word, plus>"][1, 1](x)
    assert x == 42


def test_names():
    several = kernel_on("cpu", SEVERAL_KERNELS)
    assert several.names == ("outer::one", "outer::inner::two", "add", "four")
    assert several.name is None
    assert several.parameters == ()
    assert several["two"].name == "outer::inner::two"
    assert several["two"] is several["inner::two"]
    assert smemkit.Kernel(SEVERAL_KERNELS, "one").parameters == ("x",)
    assert repr(several["two"]) == "<smemkit.Kernel outer::inner::two in kernel.cu>"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "three",
            "name: expected one of kernel.cu's kernels, outer::one, outer::inner::two, add, four; got 'three'",
        ),
        (
            "add",
            "name: expected an instantiation such as 'add<…>', because it is template <typename T, int N = 3>;",
        ),
        ("one<int>", "name: expected 'one' alone, which is not a template; got 'one<int>'"),
        ("add<int>; }", "name: expected one of kernel.cu's kernels, add; got"),
        ("", "name: expected one of"),
    ],
)
def test_name_refused(name, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kernel_on("cpu", SEVERAL_KERNELS)[name]


def test_several_kernels_and_none_chosen():
    message = (
        'name: expected kernel["name"] with one of kernel.cu\'s kernels, outer::one, outer::inner::two, add<…>'
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        kernel_on("cpu", SEVERAL_KERNELS)[1, 32]


def test_ambiguous_name():
    source = "namespace a { __global__ void k() {} } namespace b { __global__ void k() {} }"
    with pytest.raises(ValueError, match=r"one of kernel\.cu's kernels, a::k, b::k; got 'k'"):
        smemkit.Kernel(source, "k")


def test_kernel_excluded_by_preprocessor(device):
    with pytest.raises(smemkit.CompileError, match="four is excluded by an #if"):
        kernel_on(device, SEVERAL_KERNELS)["four"][1, 1](np.zeros(1, np.int32))
    x = np.zeros(1, np.int32)
    kernel_on(device, SEVERAL_KERNELS, None, ("-DWITH_FOUR",))["four"][1, 1](x)
    assert x == 4


def test_kernel_defined_by_a_macro(device):
    x = np.zeros(1, np.int32)
    kernel = kernel_on(device, SEVERAL_KERNELS + "DEFINE(five, 5)\nint main() { return 0; }", "five")
    kernel[1, 1](x)
    assert x == 5
    with pytest.raises(TypeError, match=r"argument 1: expected an array of int32 \(int32 \*\), got int 3"):
        kernel[1, 1](3)


@pytest.mark.parametrize("option", ["-O3", "-fplugin=x.so", "-o", "-DX;Y=1", "-std=c++11", "x.cu", 3])
def test_option_refused(option):
    with pytest.raises(ValueError, match="options: expected -D…, -U…, -I… or -std="):
        smemkit.Kernel(SEVERAL_KERNELS, options=[option])


def test_options(tmp_path, device):
    (tmp_path / "mine.cuh").write_text("#pragma once\n__device__ int twice(int x) { return 2 * x; }\n")
    source = '#include "mine.cuh"\n#include <mine.cuh>\n__global__ void k(int *x) { *x = twice(VALUE); }'
    x = np.zeros(1, np.int32)
    smemkit.Kernel(source, options=["-DVALUE=21", f"-I{tmp_path}", "-std=c++20"])[1, 1](x)
    assert x == 42
    (tmp_path / "mine.cuh").write_text("__device__ int twice(int x) { return x + x + 1; }\n")
    smemkit.Kernel(source.replace("#include <mine.cuh>", ""), options=["-DVALUE=21", f"-I{tmp_path}"])[1, 1](x)
    assert x == 43  # the changed header has been read again


def test_source_refused(tmp_path):
    with pytest.raises(ValueError, match=r"source: expected a __global__ function, got none in kernel\.cu"):
        smemkit.Kernel("int main() {}")
    with pytest.raises(TypeError, match="source: expected CUDA C"):
        smemkit.Kernel(3)
    with pytest.raises(FileNotFoundError):
        smemkit.Kernel("not_here.cu")


# ---- launches ---------------------------------------------------------------------------------------------------

FILL = "__global__ void fill(int *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = gridDim.x; }"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ((1,), "expected kernel[grid, block, shared_bytes=0, stream=None, cluster=None], got kernel[(1,)]"),
        ((0, 1), "grid: expected a number from 1 to 2147483647, got 0"),
        (((1, 65536), 1), "grid: expected a number from 1 to 65535, got 65536"),
        (((1, 1, 1, 1), 1), "grid: expected an int or a tuple of 1 to 3, got (1, 1, 1, 1)"),
        ((1, 1.5), "block: expected int, got float 1.5"),
        ((1, 1025), "block: expected a number from 1 to 1024, got 1025"),
        ((1, (64, 32)), "block: expected at most 1024 threads, got (64, 32, 1)"),
        ((1, (1, 1, 65)), "block: expected a number from 1 to 64, got 65"),
        ((1, 1, -1), "shared_bytes: expected a number from 0 to"),
    ],
)
def test_launch_refused(key, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        kernel_on("cpu", FILL)[key]


def test_launch_forms(device):
    kernel = kernel_on(device, FILL)
    x = np.zeros(6, np.int32)
    for key in [(3, 2), ((3,), np.int64(2)), ([3, 1], (2, 1, 1), 0), (3, 2, 0, None)]:
        x[:] = 0
        kernel[key](x)
        assert_array_equal(x, 3)
    assert repr(kernel[(3, 1), 2, 64]) == "<smemkit.Launch fill[(3, 1, 1), (2, 1, 1), 64]>"
    with pytest.raises(TypeError, match=re.escape("is called with a grid and a block: kernel[grid, block](…)")):
        kernel(x)


def test_dynamic_shared_above_48_kb(device):
    kernel = kernel_on(
        device,
        "extern __shared__ int s[]; __global__ void k(int *x, int n)"
        "{ for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i; __syncthreads(); *x = s[n - 1]; }",
    )
    x, bytes_ = np.zeros(1, np.int32), smemkit.Device().shared_per_block_optin
    kernel[1, 64, bytes_](x, bytes_ // 4)
    assert x == bytes_ // 4 - 1
    with pytest.raises(smemkit.Error):
        kernel[1, 64, bytes_ + 4](x, 1)


def test_carveout(device):
    kernel = smemkit.Kernel(FILL)
    assert kernel.carveout is None
    kernel.carveout = 50
    kernel[1, 1](np.zeros(1, np.int32))
    assert kernel.carveout == 50
    with pytest.raises(ValueError, match="carveout: expected a percentage from 0 to 100, or None, got 101"):
        kernel.carveout = 101


def test_printf_and_assert(device):
    source = r"""
        #include <assert.h>
        #include <stdio.h>
        __global__ void k(int n) {
            assert(n < 10);
            if (threadIdx.x == 1) printf("n is %d, not '%s'\n", n, "{");
        }"""
    program_text = f"""
import smemkit
with smemkit.Device({device!r}):
    k = smemkit.Kernel({source!r})
    k[1, 2](3)
    smemkit.synchronize()
    try:
        k[1, 2](11)
        smemkit.synchronize()
    except smemkit.Error as error:
        print(error)
"""
    done = run_python("-c", program_text)
    assert done.stdout.startswith("n is 3, not '{'\n"), done.stderr
    if device == "cpu":
        assert "kernel.cu:5" in done.stdout
        assert "assertion failed: n < 10" in done.stdout


KERNELS.add("""
__global__ void fails(int *x, int *y) { *x = 1; y[100000] = 1; }
__global__ void large(int *x) { __shared__ int a[9999], b[9999]; a[0] = b[0] = 1; }
__global__ void shuffles(int *x)
{
    if (threadIdx.x < 20)
        *x = __shfl_sync(~0u, 1, 25);
}
__global__ void waits(int *x) { while (!*(volatile int *)x) __threadfence(); }
__global__ void answers(volatile int *x) { x[1] = 1; while (!x[0]) __threadfence(); }
""")


def test_a_failed_kernel_does_not_change_numpy_arrays():
    x = np.zeros(1, np.int32)
    with pytest.raises(smemkit.Error, match=r"illegal write.*kernel fails, block"):
        KERNELS["fails"][1, 1](x, np.zeros(1, np.int32))
    assert x == 0


SHARED_OVERRUN_KERNEL = """
__global__ void k(int *x, int where, int bytes)
{
    __shared__ int first[61];
    __shared__ short second[11];
    extern __shared__ int third[];
    first[0] = 1, second[0] = 2, third[0] = 3;
    char *const arrays[] = {(char *)first, (char *)second, (char *)third};
    const int sizes[] = {sizeof first, sizeof second, 200};
    if (where < 3)
        arrays[where][bytes < 0 ? bytes : sizes[where] + bytes] = 5;
    x[0] = first[0] + second[0] + third[0];
}"""


@pytest.mark.parametrize("where", range(3))
@pytest.mark.parametrize("bytes", [-20000, -1000, -17, -1, 0, 1, 15, 16, 4095, 30000])
def test_writes_outside_shared_arrays_raise(where, bytes):
    """A write outside a shared array, near or far, ends the launch with an error. The next launch works."""
    kernel = kernel_on("cpu", SHARED_OVERRUN_KERNEL)
    x = np.zeros(1, np.int32)
    end = "before" if bytes < 0 else "past the end of"
    name = ["shared variable first of 244", "shared variable second of 22", "dynamic shared memory of 200"][where]
    distance = abs(bytes)
    with pytest.raises(
        smemkit.Error, match=rf"^illegal write: {distance} bytes {end} the {name} bytes in kernel k, block"
    ):
        kernel[1, 1, 200](x, where, bytes)
    kernel[1, 1, 200](x, 3, 0)
    assert x == 6


def test_too_much_static_shared_memory_is_refused():
    with pytest.raises(smemkit.Error, match="too much static shared memory: 79992 bytes with b"):
        KERNELS["large"][1, 1](np.zeros(1, np.int32))


def test_a_shuffle_from_an_exited_lane_raises():
    with pytest.raises(
        smemkit.Error,
        match=rf"^undefined shuffle at kernel.cu:{KERNELS.line('__shfl_sync')}: lane \d+ reads lane 25, "
        r"which has exited in kernel shuffles, block \(0, 0, 0\), thread \(\d+, 0, 0\)$",
    ):
        KERNELS["shuffles"][1, 32](np.zeros(1, np.int32))


def test_ctrl_c():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT
    kernel = KERNELS["waits"]
    x = smemkit.zeros(1, np.int32, device="cpu")  # this thread could set it: no endless wait
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        kernel[1, 1](x)


def test_other_threads_run_during_a_launch():
    """A launch releases the GIL: this thread runs meanwhile, and stops the kernel by writing to its array."""
    kernel = KERNELS["answers"]
    x = smemkit.zeros(2, np.int32)
    thread = threading.Thread(target=lambda: kernel[1, 1](x))
    thread.start()
    words = np.ctypeslib.as_array((ctypes.c_int * 2).from_address(x.address))
    while not words[1]:
        time.sleep(0.001)
    words[0] = 1
    thread.join(10)
    assert not thread.is_alive()


# ---- arguments --------------------------------------------------------------------------------------------------

ARGUMENTS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
struct point { float x; short id; };
enum colour { RED };
__global__ void k(float *x, const double *d, int i, unsigned char u, bool b, float f, half h, point p, float4 v,
                  const void *any, float4 *vectors, point *points, __nv_bfloat16 w, __nv_bfloat16 *wide,
                  long long n, float **rows, colour c)
{
    x[0] = i + u + b + f + __half2float(h) + p.x + p.id + v.w + (any ? 1000 : 0) + n + __bfloat162float(w);
    if (vectors) vectors[1].w = v.x;
    if (points) points[1].id = p.id;
    if (wide) wide[0] = w;
    if (d) x[1] = d[1];
}
"""
POINT = np.dtype([("x", "f4"), ("id", "i2")], align=True)
ZEROS = {
    "x": np.zeros(2, np.float32),
    "d": None,
    "i": 0,
    "u": 0,
    "b": False,
    "f": 0.0,
    "h": 0.0,
    "p": np.zeros((), POINT),
    "v": (0, 0, 0, 0),
    "any": None,
    "vectors": None,
    "points": None,
    "w": 0.0,
    "wide": None,
    "n": 0,
    "rows": None,
    "c": 0,
}


def call_with(device, **changed):
    """Runs ARGUMENTS with these arguments, and zeros for the others. Returns x."""
    arguments = {**ZEROS, "x": np.zeros(2, np.float32)} | changed
    kernel_on(device, ARGUMENTS)[1, 1](*arguments.values())
    return arguments["x"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("i", -3, -3),
        ("i", np.int64(7), 7),
        ("i", True, 1),
        ("i", np.array(5), 5),
        ("u", 255, 255),
        ("b", np.True_, 1),
        ("b", 1, 1),
        ("f", 3, 3),
        ("f", np.float64(0.5), 0.5),
        ("f", np.float16(0.5), 0.5),
        ("h", 1.5, 1.5),
        ("h", np.float16(-2), -2),
        ("w", 1.5, 1.5),
        ("w", 1 + 2**-8, 1),  # a tie: rounds to even
        ("w", ml_dtypes.bfloat16(3), 3),
        ("v", (0, 0, 0, 4), 4),
        ("v", np.array([0, 0, 0, 4.0]), 4),
        ("p", np.array((2.5, 3), POINT), 5.5),
        ("p", np.array([(2.5, 3)], POINT)[0], 5.5),
        ("n", 2**23, 2**23),
        ("any", np.zeros(3, complex), 1000),
        ("d", np.zeros(3), 0),
        ("c", 0, 0),
    ],
)
def test_argument(name, value, expected, device):
    assert call_with(device, **{name: value})[0] == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", np.zeros(2), "x: expected an array of float32 (float *x), got an array of float64, shape (2,)"),
        (
            "x",
            np.zeros(2, ">f4"),
            "x: expected an array of float32 (float *x), got an array of float32 in non-native",
        ),
        ("x", [1.0], "x: expected an array of float32 (float *x), got list"),
        ("x", 1.0, "x: expected an array of float32 (float *x), got float 1.0"),
        ("x", np.float32(1), "x: expected an array of float32 (float *x), got float32 1.0"),
        ("x", np.ma.ones(2, np.float32), "x: expected an array of float32 (float *x), got a masked array"),
        (
            "x",
            np.broadcast_to(np.float32(1), 2),
            "x: expected a writeable array (float *x), got one that is read-",
        ),
        (
            "d",
            np.zeros(2, np.float32),
            "d: expected an array of float64 (const double *d), got an array of float32",
        ),
        ("i", 2**31, "i: expected int32 from -2147483648 to 2147483647 (int i), got 2147483648"),
        ("i", 1.0, "i: expected int32 (int i), got float 1.0"),
        ("i", np.zeros(2, np.int32), "i: expected int32 (int i), got an array of int32, shape (2,)"),
        ("i", None, "i: expected int32 (int i), got NoneType"),
        ("u", -1, "u: expected uint8 from 0 to 255 (unsigned char u), got -1"),
        ("b", 2, "b: expected bool from 0 to 1 (bool b), got 2"),
        ("f", "1", "f: expected float32 (float f), got str"),
        ("f", 1j, "f: expected float32 (float f), got complex 1j"),
        (
            "p",
            3,
            "p: expected a struct of 8 bytes, a NumPy structured scalar or another buffer (point p), got int 3",
        ),
        ("p", np.zeros((), "f8,f8"), "p: expected a struct of 8 bytes"),
        ("v", (1, 2), "v: expected a tuple of 4 float32 (float4 v), got tuple"),
        ("v", (1, 2, 3, "x"), "v: expected float32 (float4 v), got str"),
        ("vectors", np.zeros(6, np.float32), "vectors: expected an array of 4 float32, a whole number of them"),
        (
            "p",
            np.zeros(9, np.int8),
            "or another buffer; for a pointer in it use a uint64 with an Array's address (point",
        ),
        ("points", np.zeros(2, "f4,f8"), "points: expected an array of structs of 8 bytes (point *points), got"),
        (
            "wide",
            np.zeros(2, np.float16),
            "wide: expected an array of bfloat16 (__nv_bfloat16 *wide), got an array",
        ),
        (
            "rows",
            np.zeros(2, np.uint64),
            "rows: expected None, because no array holds pointers",
        ),
        ("any", np.array([None]), "any: expected an array of numbers (const void *any), got an array of object"),
    ],
)
def test_argument_refused(name, value, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        call_with("cpu", **{name: value})


def test_wrong_count():
    message = "fill: expected 1 argument (x), got 2"
    with pytest.raises(TypeError, match=re.escape(message)):
        kernel_on("cpu", FILL)[1, 1](np.zeros(1, np.int32), 1)


def test_an_array_with_gaps_is_refused(device):
    x = smemkit.zeros((4, 6), np.int32, device=device)
    message = "x: expected an Array without gaps (int *x), got strides (48,) of shape (2,); .copy() has none"
    with pytest.raises(ValueError, match=re.escape(message)):
        kernel_on(device, FILL)[1, 1](x[::2, 0])
    kernel_on(device, FILL)[1, 1](x[2, 3:])  # without gaps
    assert_array_equal(x.numpy().nonzero(), ([2], [3]))


def test_a_read_only_array_is_refused():
    x = np.arange(3, dtype=np.int32)
    x.flags.writeable = False
    array = smemkit.from_dlpack(x)
    with pytest.raises(
        ValueError, match=re.escape("x: expected a writeable array (int *x), got one that is read-")
    ):
        kernel_on("cpu", FILL)[1, 1](array)
    b = np.zeros(3, np.int32)
    kernel_on("cpu", ADD)[1, 3](array, b, 3)  # a pointer to const takes it
    assert_array_equal(b, x)


def test_an_array_is_refused_as_a_struct(device):
    message = "p: expected a struct of 8 bytes, a NumPy structured scalar or another buffer; for a pointer in it"
    with pytest.raises(TypeError, match=re.escape(message)):
        call_with(device, p=smemkit.zeros(2, np.int32, device=device))


def test_arrays_of_vectors_and_structs(device):
    vectors, points = np.zeros((2, 4), np.float32), np.zeros(2, POINT)
    wide, point = np.zeros(1, ml_dtypes.bfloat16), np.array((0, 7), POINT)
    call_with(device, vectors=vectors, points=points, p=point, v=(5, 0, 0, 0), w=3, wide=wide)
    assert_array_equal(vectors, [[0, 0, 0, 0], [0, 0, 0, 5]])
    assert_array_equal(points["id"], [0, 7])
    assert wide[0] == 3


ADD = """
__global__ void add(const int *a, int *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] += a[i];
}
"""


def test_layouts(device):
    kernel, base = kernel_on(device, ADD), np.arange(48, dtype=np.int32)
    for view in (slice(None, None, 3), slice(None, None, -1), slice(5, 5), slice(7, 8)):
        b = base.copy()
        expected = b.copy()
        expected[view] += base[view]
        kernel[1, 64](base[view], b[view], base[view].size)
        assert_array_equal(b, expected)
    columns = np.arange(12, dtype=np.int32).reshape(3, 4)
    out = np.zeros((4, 3), np.int32, order="F")
    kernel[1, 64](columns.T, out, 12)
    assert_array_equal(out, columns.T)
    scalar = np.array(3, np.int32)
    kernel[1, 1](scalar, scalar, 1)
    assert scalar == 6


def test_arguments_in_the_same_memory(device):
    x = np.arange(6, dtype=np.int32)
    kernel_on(device, ADD)[1, 6](x, x, 6)
    assert_array_equal(x, 2 * np.arange(6))
    kernel_on(device, ADD)[1, 6](x[::2], x[1::2], 3)  # interleaved, but without an overlap
    kernel_on(device, ADD)[1, 1](x[1:], x[:-1], 1)  # two views of one array
    assert_array_equal(x, [2, 2, 4, 10, 8, 18])
    with pytest.raises(
        ValueError, match="a and b overlap: expected the same array twice, two views of one array without gaps, or"
    ):
        kernel_on(device, ADD)[1, 6](x[::2], x[:3], 3)


def test_arrays_of_the_device(device):
    a, b = on(device, np.arange(6, dtype=np.int32)), on(device, np.ones(6, np.int32))
    with smemkit.Device("cpu"):  # the arrays' device counts, not the default
        kernel_on(device, ADD)[1, 6](a, b, 6)
        assert_array_equal(b.numpy(), np.arange(6) + 1)
    kernel_on(device, ADD)[1, 6](np.ones(6, np.int32), b, 6)
    assert_array_equal(b.numpy(), np.arange(6) + 2)
    with pytest.raises(TypeError, match="b: expected an array of int32"):
        kernel_on(device, ADD)[1, 6](a, on(device, np.ones(6, np.float32)), 6)


@pytest.mark.gpu
def test_arrays_of_two_devices():
    if not smemkit.is_available():
        pytest.skip("no CUDA device")
    a, b = on("cpu", np.ones(6, np.int32)), on("cuda:0", np.ones(6, np.int32))
    with pytest.raises(ValueError, match=re.escape("got some on cpu and on cuda:0; .to() moves them")):
        kernel_on("cpu", ADD)[1, 6](a, b, 6)


@pytest.mark.gpu
def test_stream():
    core = pytest.importorskip("cuda.core")
    if not smemkit.is_available():
        pytest.skip("no CUDA device")
    with smemkit.Device("cuda:0"):
        core.Device(0).set_current()
        stream = core.Device(0).create_stream()
        a, b = on("cuda:0", np.ones(6, np.int32)), np.zeros(6, np.int32)
        for given in (stream, int(stream.handle)):
            kernel_on("cuda:0", ADD)[1, 6, 0, given](a, b, 6)
        with smemkit.Stream():
            kernel_on("cuda:0", ADD)[1, 6](a, b, 6)
        assert_array_equal(b, 3)
        with pytest.raises(TypeError, match=r"stream: expected an integer or .+ __cuda_stream__, got str"):
            kernel_on("cuda:0", ADD)[1, 6, 0, "x"](a, b, 6)


# ---- variables --------------------------------------------------------------------------------------------------

CONSTANTS = """
namespace ns { __constant__ float table[2][3], one = 1.5f; }
static __constant__ float4 vector;
__device__ unsigned long long count;
struct point { float x; int id; };
__constant__ point where;
__global__ void k(float *x) { *x = ns::table[1][2] + ns::one + vector.y + where.id; atomicAdd(&count, 1ull); }
template <int N> __global__ void t(float *x) { *x = N + ns::one; }
"""


def test_constants(device):
    kernel, x = smemkit.Kernel(CONSTANTS, "k"), np.zeros(1, np.float32)
    assert list(kernel.constants) == ["ns::table", "ns::one", "vector", "count", "where"]
    assert kernel.constants["ns::one"] == 1.5
    kernel.constants["ns::table"] = table = np.arange(6, dtype=np.float32).reshape(2, 3)
    kernel.constants["ns::one"] = 2
    kernel.constants["vector"] = (0, 10, 0, 0)
    kernel.constants["where"] = np.array((0, 100), "f4,i4")
    kernel[1, 1](x)
    assert x == 117
    assert_array_equal(kernel.constants["ns::table"], table)
    assert kernel.constants["count"] == 1
    kernel["t<40>"][1, 1](x)  # compiled after the constant was set
    assert x == 42
    assert smemkit.Kernel(CONSTANTS, "k").constants["ns::one"] == 1.5  # each Kernel has its own constants


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        (
            "ns::two",
            0,
            KeyError,
            "ns::two: expected one of the variables of kernel.cu, ns::table, ns::one, vector",
        ),
        ("ns::table", np.zeros(6), TypeError, "ns::table: expected float32, got an array of float64, shape (6,)"),
        (
            "ns::table",
            np.zeros(5, "f4"),
            ValueError,
            "ns::table: expected 24 bytes, shape (2, 3), got an array of",
        ),
        ("ns::one", "x", TypeError, "ns::one: expected float32, got str"),
    ],
)
def test_constant_refused(name, value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kernel_on("cpu", CONSTANTS, "k").constants[name] = value


# ---- compile errors ---------------------------------------------------------------------------------------------


MEMBERS = "struct pair { int a; pair(int a) : a(a) {} void set() {} __device__ int get() { return a; } };\n"


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("__global__ void k(int *x)\n{\n    x[0] = y;\n}", 3, "'y' was not declared"),
        ("__device__ int f(int x) { return x }\n__global__ void k() { f(1); }", 1, "expected ';'"),
        (
            "int f() { return 1; }\n__global__ void k(int *x)\n{\n    *x = f();\n}",
            4,
            "f is host code (kernel.cu:1)",
        ),
        ("int n = 3;\n__global__ void k(int *x)\n{\n    *x = n;\n}", 4, "n is host code (kernel.cu:1)"),
        (MEMBERS + "__global__ void k(int *x) { pair p(3); }", 2, "pair::pair is host code (kernel.cu:1)"),
        (MEMBERS + "__global__ void k(pair *x) { x->set(); }", 2, "pair::set is host code (kernel.cu:1)"),
        (
            "struct big { char c[99]; };\n__global__ void k(big *x)\n{\n    __shfl_sync(~0u, *x, 0);\n}",
            4,
            "at most 8",
        ),
        (
            "__global__ void k(cudaGraphConditionalHandle h)\n{\n    cudaGraphSetConditional(h, 0);\n}",
            3,
            "conditional nodes of graphs do not run on the CPU device",
        ),
        ("__global__ int k(int *x) { return 0; }", 1, "a __global__ function returns void"),
        ("\n__global__ void k(int &x) { x = 0; }", 2, "a __global__ function takes no references"),
        ('#include "missing.h"\n__global__ void k(missing *x) {}', 2, "missing"),
        (
            "__device__ int f(int);\n__global__ void k(int *x) { *x = f(1); }",
            None,
            "f(int) is declared but not defined",
        ),
    ],
)
@pytest.mark.covering(1)
def test_compile_error(source, line, message):
    with pytest.raises(smemkit.CompileError) as caught:
        smemkit.Kernel(source)
    assert message in str(caught.value)
    assert caught.value.line == line
    if line:
        text = source.splitlines()[line - 1]
        assert str(caught.value).startswith(f"kernel.cu:{line}: ")
        assert text.strip() in str(caught.value)
        assert (caught.value.file, caught.value.text) == ("kernel.cu", text)
    assert "/tmp" not in str(caught.value)
    assert "smemkit::" not in str(caught.value)


@pytest.mark.gpu
def test_compile_error_of_nvrtc():
    pytest.importorskip("cuda.core")
    if not smemkit.is_available():
        pytest.skip("no CUDA device")
    with smemkit.Device("cuda:0"), pytest.raises(smemkit.CompileError) as caught:
        smemkit.Kernel("int f() { return 1; }\n__global__ void k(int *x)\n{\n    *x = f();\n}")
    assert str(caught.value).startswith("kernel.cu:4: ")
    assert "f is host code (kernel.cu:1)" in str(caught.value)
    assert caught.value.line == 4


def test_compile_error_in_a_header(tmp_path):
    (tmp_path / "helper.cuh").write_text("\n__device__ int f() { return nothing; }\n")
    (tmp_path / "main.cu").write_text('#include "helper.cuh"\n__global__ void k(int *x) { *x = f(); }\n')
    with pytest.raises(smemkit.CompileError, match=r"helper\.cuh:2: 'nothing' was not declared") as caught:
        smemkit.Kernel(tmp_path / "main.cu")
    assert caught.value.file == str(tmp_path / "helper.cuh")


def test_compile_error_in_a_template():
    source = (
        'template <class T>\n__global__ void k(T *x)\n{\n    static_assert(sizeof(T) == 8, "doubles only");\n}'
    )
    with pytest.raises(smemkit.CompileError, match=r"kernel\.cu:4: .*doubles only"):
        smemkit.Kernel(source, "k<float>")
    with pytest.raises(smemkit.CompileError, match="name=k<flot>: 'flot' was not declared"):
        smemkit.Kernel(source, "k<flot>")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            'asm volatile("tcgen05.fence::before_thread_sync;");',
            "does not support inline PTX `tcgen05.fence::before_thread_sync`",
        ),
        ('asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(*x));', "does not support inline PTX `mov.u32`"),
        (
            'asm volatile("{ .reg .pred p; @p mbarrier.try_wait.b64 p, [%0]; }" :: "l"(x));',
            "does not support inline PTX `mbarrier.try",
        ),
        ("texture<float, 2> t;", "a texture reference, which CUDA 12 has removed"),
        (
            'asm("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0], [%0];" :: "l"(x));',
            "does not support inline PTX `cp.async.bulk.tensor.4d.global.shared::cta.im2col",
        ),
        ("k<<<1, 1>>>(x);", "a launch from device code (dynamic parallelism) is not supported on the CPU device"),
    ],
)
def test_unsupported_features_are_named(line, what):
    hidden = "#if __CUDA_ARCH__ >= 9000\n" + line + "\n#endif\n"
    source = f"__global__ void k(int *x)\n{{\n{hidden}{line}\n}}"
    with pytest.raises(smemkit.CompileError) as caught:
        smemkit.Kernel(source)
    first, *_ = str(caught.value).splitlines()
    assert first.startswith("kernel.cu:6: ") and what in first
    assert str(caught.value).count("\n") == 1


def test_ptx_excluded_by_preprocessor():
    source = """
__device__ int lane() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    int i; asm("mov.u32 %0, %%laneid;" : "=r"(i)); return i;
#else
    return threadIdx.x % 32;
#endif
}
__global__ void k(int *x) { x[threadIdx.x] = lane(); }
"""
    x = np.zeros(40, np.int32)
    smemkit.Kernel(source)[1, 40](x)
    assert_array_equal(x, np.arange(40) % 32)


CUB = """#include <cub/cub.cuh>
__global__ void k(int *x, float *y)
{
    typedef cub::BlockReduce<int, 128> BlockReduce;
    using BlockScan = cub::BlockScan<float, 128>;
    __shared__ typename BlockReduce::TempStorage reduce;
    __shared__ typename BlockScan::TempStorage scan;
    int sum = BlockReduce(reduce).Sum(x[threadIdx.x]);
    float before;
    BlockScan(scan).ExclusiveSum(y[threadIdx.x], before);
    y[threadIdx.x] = before;
    if (threadIdx.x == 0)
        x[0] = sum;
}"""


CUB_LOADS = """#include <cub/cub.cuh>
__global__ void k(int *x, float *y)
{
    typedef cub::BlockLoad<int, 32, 2> Load;
    typedef cub::BlockStore<int, 32, 2, cub::BLOCK_STORE_TRANSPOSE> Store;
    __shared__ union { Load::TempStorage load; Store::TempStorage store; } s;
    int own[2];
    for (int i = 0; i < 2; ++i)
        x[2 * threadIdx.x + i] = 2 * threadIdx.x + i;
    __syncthreads();
    Load(s.load).Load(x, own);
    __syncthreads();
    own[0] *= 2;
    own[1] *= 2;
    Store(s.store).Store(x, own);
}"""


@pytest.mark.slow
def test_cub():
    """CUB's own headers, from the extra's package."""
    if not cccl.find_headers():
        pytest.skip("smemkit[cccl] is not installed")
    x, y = np.arange(128, dtype=np.int32), np.ones(128, np.float32)
    smemkit.Kernel(CUB)[1, 128](x, y)
    assert x[0] == 127 * 64
    assert_array_equal(y, np.arange(128))
    headers = (
        "#include <cuda_fp16.h>\n#include <cub/cub.cuh>\n#include <cuda/std/functional>\n"  # that know __half2
    )
    halves = CUB.replace("int *x", "half2 *h, int *x").replace(
        "y[threadIdx.x] = ", "y[threadIdx.x] = __low2float(*h) * "
    )
    y[:] = 1
    smemkit.Kernel(headers + halves)[1, 128](np.full((1, 2), 2, np.float16), x, y)
    assert_array_equal(y, 2 * np.arange(128))
    smemkit.Kernel(CUB_LOADS)[1, 32](x, y)
    assert_array_equal(x[:64], 2 * np.arange(64))


def test_cub_without_the_extra(monkeypatch):
    monkeypatch.setattr(cccl, "find_headers", lambda: None)
    with pytest.raises(smemkit.CompileError, match=r"kernel\.cu:4: .*pip install 'smemkit\[cccl\]'"):
        smemkit.Kernel(CUB)


def test_compiler_from_the_package(monkeypatch):
    """Without a compiler on the machine, the package ziglang's is taken, but not instead of what CXX names."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: name == "ziglang" or None)
    assert compiler.find_compiler() == [sys.executable, "-m", "ziglang", "c++"]
    monkeypatch.setenv("CXX", "missing++")
    with pytest.raises(smemkit.Error, match=r"CXX='missing\+\+' was not found.*smemkit\[compiler\]"):
        compiler.find_compiler()


def test_the_compiler_behind_ccache(monkeypatch, tmp_path):
    """ccache keeps nothing that is compiled with a precompiled header. What CXX names is taken as it is."""
    links, tools = tmp_path / "links", tmp_path / "tools"
    for folder, names in (links, ["ccache"]), (tools, ["c++"]):
        folder.mkdir()
        for name in names:
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
    (links / "c++").symlink_to("ccache")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CCACHE_COMPILER", raising=False)
    monkeypatch.setenv("PATH", f"{links}{os.pathsep}{tools}")
    assert compiler.find_compiler() == [str(tools / "c++")]
    monkeypatch.setenv("CCACHE_COMPILER", "clang++")
    assert compiler.find_compiler() == [str(links / "c++")]
    monkeypatch.delenv("CCACHE_COMPILER")
    monkeypatch.setenv("CXX", "c++ -g")
    assert compiler.find_compiler() == [str(links / "c++"), "-g"]
    monkeypatch.delenv("CXX")
    (tools / "c++").unlink()
    assert compiler.find_compiler() == [str(links / "c++")]


@pytest.mark.slow  # CI installs ziglang for the tests that are not in the default tier
def test_the_package_s_compiler_compiles_and_checks(monkeypatch, tmp_path):
    """Its clang emits the hooks of a checked build, too, and leaves what is undefined to the checker. No library
    is compiled for it, which would take a minute."""
    pytest.importorskip("ziglang", reason="smemkit[compiler] is not installed")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ZIG_LOCAL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    source = """
__global__ void reverse(float *x)
{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
}"""
    x = np.arange(64, dtype=np.float32)
    smemkit.Kernel(source)[1, 64](x)
    assert_array_equal(x, np.arange(64)[::-1])
    assert smemkit.check(smemkit.Kernel(source)[1, 64], x).ok
    (race,) = smemkit.check(smemkit.Kernel(source.replace("__syncthreads();", ""))[1, 64], x).faults
    assert (race.kind, race.hazard, race.line) == ("race", "RAW", 7)
    source = "__global__ void k(float *x) { *(int *)((char *)x + 1) = 1; }"
    (fault,) = smemkit.check(smemkit.Kernel(source)[1, 1], x).faults
    assert (fault.kind, fault.line) == ("misaligned", 1)
    compiled = {path.stem for path in tmp_path.rglob("*.o")}
    assert all(re.fullmatch("kernel|[0-9a-f]{32}", name) for name in compiled), compiled


EXTERN_IN_MACRO = """
template <class T> struct Shared { __device__ T *pointer() { return nullptr; } };
#define OF_TYPE(t, n) \\
    template <> struct Shared<t> { __device__ t *pointer() { \\
        extern __shared__ t n[]; \\
        return n; } };
OF_TYPE(int, s_int)
OF_TYPE(float, s_float)
extern __shared__ int rows[][4];
__global__ void k(int *x)
{
    Shared<int>().pointer()[7] = 5;
    x[0] = rows[1][3];
    x[1] = sizeof rows[0];
}"""


def test_extern_shared_in_a_macro_and_with_rows():
    x = np.zeros(2, np.int32)
    smemkit.Kernel(EXTERN_IN_MACRO, "k")[1, 1, 64](x)
    assert x.tolist() == [5, 16]


GRID = """#include <cooperative_groups.h>
__device__ void barrier() { cooperative_groups::this_grid().sync(); }
__global__ void turn(int *x, int *y)
{
    x[blockIdx.x] = blockIdx.x + 1;
    barrier();
    if (threadIdx.x == 0)
        y[blockIdx.x] = x[(blockIdx.x + 1) % gridDim.x];
}
__global__ void one_leaves(int *x)
{
    if (blockIdx.x == 0)
        return;
    barrier();
    x[blockIdx.x] = 1;
}"""


def test_grid_barrier():
    """A kernel that mentions a grid's group is launched with all of its blocks at once."""
    kernel = smemkit.Kernel(GRID, "turn")
    x, y = np.zeros(9, np.int32), np.zeros(9, np.int32)
    kernel[9, 64](x, y)
    assert_array_equal(y, np.roll(np.arange(1, 10), -1))
    with pytest.raises(smemkit.Error, match="at most 256 together"):
        kernel[257, 1](np.zeros(257, np.int32), np.zeros(257, np.int32))


def test_grid_barrier_that_one_block_misses():
    """The wait can never end, which is reported at once, not by the watchdog after a minute."""
    began = time.monotonic()
    with pytest.raises(smemkit.Error):
        smemkit.Kernel(GRID, "one_leaves")[3, 32](np.zeros(3, np.int32))
    assert time.monotonic() - began < 30


STANDS_ALONE = """#include "helpers.cuh"
__device__ int twice(int x) { return doubled(x); }
__device__ int twice(float x) { return 2; }
__global__ void needs_header(int *x) { *x = twice(1); }
__global__ void works(int *x) { *x = 1; }
__global__ void declared(int *x);
template <class T> __global__ void any(T *x) { *x = 3; }
template <class T> __global__ void any_twice(T *x) { *x = twice(3.0f); }
static int host_only() { return 3; }
__global__ void calls_host(int *x) { *x = host_only(); }
"""


def test_kernels_stand_alone(tmp_path):
    """A kernel that does not compile is skipped with its reason. No overload takes the place of one that does not
    compile."""
    (tmp_path / "x.cu").write_text(STANDS_ALONE)
    kernel = smemkit.Kernel(tmp_path / "x.cu")
    assert sorted(kernel.skipped) == ["any_twice", "calls_host", "declared", "needs_header"]
    x = np.zeros(1, np.int32)
    kernel["works"][1, 1](x)
    assert x == 1
    kernel["any<int>"][1, 1](x)
    assert x == 3
    for name, line, reason in [
        ("needs_header", 2, "'doubled' was not declared"),
        ("any_twice<int>", 2, "'doubled' was not declared"),
        ("calls_host", 10, f"host_only is host code ({tmp_path}/x.cu:9)"),
        ("declared", None, "declared(int*) is declared but not defined"),
    ]:
        with pytest.raises(smemkit.CompileError, match=re.escape(reason)) as caught:
            kernel[name][1, 1](x)
        assert getattr(caught.value, "line", None) == line
    assert any(note.startswith("needs_header does not compile: ") for note in kernel.notes)
    assert "works" not in "".join(kernel.notes)


def test_missing_header_is_named(tmp_path):
    (tmp_path / "x.cu").write_text(STANDS_ALONE)
    note = f"{tmp_path}/x.cu:1: helpers.cuh not found; add -I with its folder"
    assert note in smemkit.Kernel(tmp_path / "x.cu").notes
    with pytest.raises(smemkit.CompileError, match=re.escape(note)):
        smemkit.Kernel(tmp_path / "x.cu", "needs_header")
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "helpers.cuh").write_text("__device__ int doubled(int x) { return 2 * x; }")
    kernel = smemkit.Kernel(tmp_path / "x.cu", "needs_header", options=[f"-I{tmp_path}/include"])
    assert note not in kernel.notes
    x = np.zeros(1, np.int32)
    kernel[1, 1](x)
    assert x == 2


def test_no_kernel_compiles():
    """Then the constructor raises, with all errors; host headers do not matter as long as no kernel needs them."""
    with pytest.raises(smemkit.CompileError) as caught:
        smemkit.Kernel("#include <mpi.h>\n__global__ void a() { p(); }\n__global__ void b() { q(); }")
    assert re.findall(r"kernel\.cu:(\d+): ", str(caught.value)) == ["2", "3", "1"]
    assert "mpi.h not found; add -I" in str(caught.value)
    assert smemkit.Kernel("#include <mpi.h>\n__global__ void a() { }").notes == ()


OLDER = ["-D__CUDA_ARCH__=800", "-DCUDART_VERSION=12040"]  # the headers are precompiled once for both tests


def test_architecture_and_versions():
    """What a source sees of the compiler: sm_90 and CUDA 13, unless -D says otherwise."""
    source = """#include <cuda.h>
__global__ void k(int *x)
{
    x[0] = __CUDA_ARCH__;
    x[1] = CUDART_VERSION / 1000 + (CUDA_VERSION / 1000 - __CUDACC_VER_MAJOR__);
#if defined(__NVCC__) && defined(__CUDACC__)
    x[2] = 1;
#endif
}"""
    x = np.zeros(3, np.int32)
    smemkit.Kernel(source)[1, 1](x)
    assert x.tolist() == [900, 13, 1]
    smemkit.Kernel(source, options=OLDER)[1, 1](x)
    assert x.tolist() == [800, 12, 1]


def test_named_barriers(device):
    """Two warps produce, two consume: bar.sync and bar.arrive, with operands and without, in a macro too."""
    kernel = kernel_on(
        device,
        r"""
#define BARRIER_SYNC(id, count) \
    asm volatile("bar.sync %0, %1;" \
                 : : "r"(id), "r"(count) : "memory")
__global__ void k(int *x)
{
    __shared__ int s[64];
    int t = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        s[t] = 3 * t;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        BARRIER_SYNC(1, 128);
        x[t] = s[63 - t];
    }
    asm volatile("barrier.sync 0;");
}""",
    )
    x = np.zeros(64, np.int32)
    kernel[1, 128](x)
    assert_array_equal(x, 3 * np.arange(64)[::-1])


# ---- the cache --------------------------------------------------------------------------------------------------

TINY = "__global__ void k(int *x) { *x = %d; }"


def entries(folder):
    """The names in the cache, except the compiler's flags, the dialect's header and its precompiled form."""
    return sorted(path.name for path in folder.iterdir() if path.suffix not in (".json", ".h", ".gch"))


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SMEMKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def cache_without_kernels(isolated_cache, fresh_cache):
    """It has the precompiled headers."""
    fresh_cache.mkdir(mode=0o700)
    copy_precompiled_headers(isolated_cache, fresh_cache)
    return fresh_cache


@pytest.fixture(scope="module")
def cache_of_one(isolated_cache, tmp_path_factory):
    """A cache with TINY % 1 and the dialect's precompiled header, not to be changed."""
    folder = tmp_path_factory.mktemp("one")
    copy_precompiled_headers(isolated_cache, folder, ["plain"])
    with pytest.MonkeyPatch.context() as patch, smemkit.Device("cpu"):
        patch.setenv("SMEMKIT_CACHE", str(folder))
        smemkit.Kernel(TINY % 1)
    return folder


@pytest.fixture
def used_cache(cache_of_one, fresh_cache):
    """A copy of it."""
    return shutil.copytree(cache_of_one, fresh_cache)


def test_cache_is_private(fresh_cache):
    smemkit.Kernel(TINY % 1)
    assert fresh_cache.stat().st_mode & 0o777 == 0o700
    assert {path.name[32:] for path in fresh_cache.iterdir()} - {".json"} == {".h", ".h.gch", ".so"}
    for path in fresh_cache.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert re.fullmatch(r"[0-9a-f]{32}", path.name[:32])


@pytest.mark.parametrize("what", ["folder", "so", "h", "gch"])
def test_cache_that_others_may_write_is_refused(used_cache, what):
    smemkit.Kernel(TINY % 1)
    path = used_cache if what == "folder" else next(used_cache.glob(f"*.{what}"))
    path.chmod(path.stat().st_mode | 0o020)
    message = rf"{path} would be loaded as code, and others may write to it \(mode 0\d+\); `chmod go-w` fixes"
    with pytest.raises(smemkit.Error, match=message):
        smemkit.Kernel(TINY % (1 if what in ("folder", "so") else 2))


@pytest.mark.parametrize("what", ["folder", "so", "h", "gch"])
def test_cache_of_another_user_is_refused(used_cache, what):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    smemkit.Kernel(TINY % 1)
    path = used_cache if what == "folder" else next(used_cache.glob(f"*.{what}"))
    os.chown(path, 12345, -1)
    with pytest.raises(smemkit.Error, match="it belongs to user 12345, not to user 0 who runs this"):
        smemkit.Kernel(TINY % (1 if what in ("folder", "so") else 2))


def test_cache_that_is_a_link_is_refused(used_cache, tmp_path):
    entry = next(used_cache.glob("*.so"))
    entry.rename(tmp_path / "elsewhere.so")
    entry.symlink_to(tmp_path / "elsewhere.so")
    with pytest.raises(smemkit.Error, match="would be loaded as code, and"):
        smemkit.Kernel(TINY % 1)


def test_cache_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SMEMKIT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        smemkit.Error, match=r"the cache of compiled kernels: .*; set SMEMKIT_CACHE to another folder"
    ):
        smemkit.Kernel(TINY % 1)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SMEMKIT_CACHE": "mine", "XDG_CACHE_HOME": "xdg"}, "mine"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/smemkit"),
        ({"HOME": "home"}, "home/.cache/smemkit"),
    ],
)
def test_cache_location(environment, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("SMEMKIT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert cache_module.cache_folder() == tmp_path / expected


def test_cached_kernel_is_quick_and_not_compiled(monkeypatch):
    kernel_on("cpu", ADD)
    monkeypatch.setattr(subprocess, "run", None)  # no compiler
    start = time.perf_counter()
    smemkit.Kernel(ADD)
    assert time.perf_counter() - start < 0.5  # 0.02 s on an idle machine


def test_what_the_cache_key_depends_on(used_cache, monkeypatch):
    smemkit.Kernel(TINY % 1)
    smemkit.Kernel(TINY % 1)
    assert len(entries(used_cache)) == 1
    smemkit.Kernel(TINY % 1, options=["-DX"])
    assert len(entries(used_cache)) == 2
    smemkit.Kernel("// a comment counts, because it changes line numbers\n" + TINY % 1)
    assert len(entries(used_cache)) == 3
    monkeypatch.setattr(compiler, "_dialect_fingerprint", lambda: "newer headers")
    smemkit.Kernel(TINY % 1)
    assert len(entries(used_cache)) == 4


def test_a_newer_compiler_behind_the_same_wrapper_has_another_fingerprint(tmp_path):
    wrapper, version = tmp_path / "c++", tmp_path / "version"
    wrapper.write_text(f"#!/bin/sh\ncat {version}\n")
    wrapper.chmod(0o755)
    fingerprints = []
    for number in "12.2", "12.3":
        version.write_text(number)
        fingerprints.append(compiler._compiler_fingerprint.__wrapped__((str(wrapper),)))
    assert fingerprints[0] != fingerprints[1]


def test_flags_are_found_once_for_each_compiler(fresh_cache, monkeypatch):
    """A later process takes them from the cache; a file that others may write is not read."""
    command = (*compiler.find_compiler(), "-DX")
    find = compiler._flags.__wrapped__
    flags = find(command, True)
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "_accepts", None)
        assert find(command, True) == flags
    [entry] = fresh_cache.glob("*.json")
    entry.write_text('["-fplugin=evil.so"]')
    entry.chmod(0o622)
    assert find(command, True) == flags


def test_folders_and_macros_share_a_precompiled_header(used_cache, tmp_path):
    """Making one takes a second. The macros that the dialect's headers depend on need their own."""
    for options in ["-DN=3", f"-I{tmp_path}"], ["-DT=int", "-DF(x)=(x)"], ["-UN"]:
        smemkit.Kernel(TINY % 1, options=options)
    assert len(list(used_cache.glob("*.gch"))) == 1
    assert {"__CUDA_ARCH__", "NDEBUG"} <= compiler._settings()


def test_macros_of_the_options_are_defined_for_the_source_alone():
    """The dialect's headers have names such as N and T of their own."""
    source = "__global__ void k(T *x) { *x = F(N); }"
    kernel = smemkit.Kernel(source, options=["-DN=20", "-DT=int", "-DF(x)=(x + FLAG)", "-DFLAG"])
    x = np.zeros(1, np.int32)
    kernel[1, 1](x)
    assert x[0] == 21


def test_architecture_of_the_options_reaches_the_headers():
    kernel = smemkit.Kernel("__global__ void k(int *x) { *x = __CUDA_ARCH__; }", options=OLDER)
    x = np.zeros(1, np.int32)
    kernel[1, 1](x)
    assert x[0] == 800


def test_the_dialect_leaves_few_templates_to_each_kernel(tmp_path):
    """Those that functions of the headers use are instantiated for every kernel, precompiled or not: 300 of them
    took longer than the rest of a compilation."""
    if (
        "g++"
        not in subprocess.run([*compiler.find_compiler(), "--version"], capture_output=True, text=True).stdout
    ):
        pytest.skip("only g++ dumps them")
    (tmp_path / "k.cpp").write_text(compiler.CPU_PRELUDE)
    command = compiler._command(compiler.find_compiler(), checked=False)
    subprocess.run(
        [*command, "-c", "k.cpp", f"-fdump-tree-original={tmp_path / 'dump'}"], cwd=tmp_path, check=True
    )
    instantiations = re.findall(r"^;; Function (.*\[with .*)", (tmp_path / "dump").read_text(), re.MULTILINE)
    assert len(instantiations) < 60


def test_min_and_max_of_std_need_no_header():
    x = np.array([1, 9, 4], np.int32)
    smemkit.Kernel("__global__ void k(int *x) { *x = std::max(std::min(x[1], x[2]), 2); }")[1, 1](x)
    assert x[0] == 4


def test_std_headers_are_compiled_for_a_kernel_that_uses_std(used_cache):
    """A macro that mentions std counts where it is used: helper headers define many for the host."""
    source = "#include <iostream>\n#define LOG(x) std::cout << x\n__global__ void k(int *x) { *x = %s; }"
    units = [
        cpu_module._translation_unit(scan(source % text), "k.cu", ["k"], with_cccl=False)
        for text in ("1", "sizeof(std::ostream)", "sizeof(LOG(1))")
    ]
    assert ["\n#include <iostream>" in unit for unit in units] == [False, True, True]


def test_cache_eviction(cache_without_kernels, monkeypatch):
    for number in (1, 2):
        smemkit.Kernel(TINY % number)
        os.utime(cache_without_kernels / entries(cache_without_kernels)[0], (number, number))
    (cache_without_kernels / ".new-old").mkdir()
    (cache_without_kernels / ".new-now").mkdir()
    os.utime(cache_without_kernels / ".new-old", (1, 1))
    size = max(path.stat().st_size for path in cache_without_kernels.glob("*.so"))
    monkeypatch.setattr(cache_module, "_CACHE_BYTES", size)
    smemkit.Kernel(TINY % 3)
    left = entries(cache_without_kernels)
    assert len(left) == 2
    assert left[0] == ".new-now"


def test_interrupted_compilation_leaves_nothing(fresh_cache, tmp_path):
    slow = tmp_path / "slow"
    probe = 'case "$*" in *-fsyntax-only* | *--version*) exit 1;; esac'
    slow.write_text(f"#!/bin/sh\n{probe}\necho half > kernel.so\necho half > kernel.o\nexec sleep 60\n")
    slow.chmod(0o755)
    program_text = f"""
import signal, smemkit
signal.signal(signal.SIGINT, signal.default_int_handler)
with smemkit.Device("cpu"):
    smemkit.Kernel({TINY % 1!r})
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program_text],
        env={**os.environ, "CXX": str(slow)},
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    until = time.monotonic() + 20
    while not list(fresh_cache.glob(".new-*/kernel.so")) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert b"KeyboardInterrupt" in errors
    assert entries(fresh_cache) == []


@pytest.mark.parametrize("cache", ["used_cache", pytest.param("fresh_cache", marks=pytest.mark.slow)])
def test_two_processes_at_once(cache, request):
    cache = request.getfixturevalue(cache)
    before = len(entries(cache)) if cache.exists() else 0
    program_text = f"""
import os
import numpy as np, smemkit
child = os.fork()
with smemkit.Device("cpu"):
    x = np.zeros(1, np.int32)
    smemkit.Kernel({TINY % 7!r})[1, 1](x)
os.write(1, b"%d\\n" % x[0])
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = run_python("-c", program_text)
    assert (done.stdout, done.returncode) == ("7\n7\n", 0), done.stderr
    assert len(entries(cache)) == before + 1


def test_threads_at_once(cache_without_kernels):
    kernel, results = smemkit.Kernel(SEVERAL_KERNELS), []

    def run():
        x = np.zeros(1, np.int32)
        kernel["add<int, 11>"][1, 1](x)
        results.append(int(x[0]))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [11] * 4


def test_no_compiler(fresh_cache, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        smemkit.Error, match=r"CXX='no-such-compiler' was not found: install g.. or clang .*apt install"
    ):
        smemkit.Kernel(TINY % 1)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        smemkit.Error, match=r"a kernel needs a C.. compiler to run on the CPU device, and none was found"
    ):
        smemkit.Kernel(TINY % 1)


def test_options_are_not_passed_to_a_shell(cache_without_kernels, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.zeros(1, np.int32)
    source = "__global__ void k(int *x) { *x = sizeof(NAME); }"
    smemkit.Kernel(source, options=['-DNAME="$(touch owned); `touch owned`"'])[1, 1](x)
    assert x == len("$(touch owned); `touch owned`") + 1
    assert not (tmp_path / "owned").exists()


def test_clang(fresh_cache, monkeypatch):
    if not compiler.shutil.which("clang++"):
        pytest.skip("no clang++")
    monkeypatch.setenv("CXX", "clang++ -Wall")
    kernel, x = smemkit.Kernel(CONSTANTS, "k"), np.zeros(1, np.float32)
    kernel[1, 1](x)
    assert x == 1.5
    with pytest.raises(smemkit.CompileError, match=r"kernel\.cu:4: .*a shuffle moves at most 8 bytes"):
        smemkit.Kernel(
            "struct big { char c[99]; };\n__global__ void k(big *x)\n{\n    __shfl_sync(~0u, *x, 0);\n}"
        )
    with pytest.raises(smemkit.CompileError, match=r"kernel\.cu:3: the CPU .* inline PTX `tcgen05.fence`"):
        smemkit.Kernel('__global__ void k()\n{\n    asm("tcgen05.fence;");\n}')


# ---- for the checker --------------------------------------------------------------------------------------------


def test_checked_call_changes_nothing():
    kernel, a, b = smemkit.Kernel(ADD), np.arange(6, dtype=np.int32), on("cpu", np.ones(6, np.int32))
    kernel[1, 6]._checked_call(a, b, 6)
    assert_array_equal(b.numpy(), 1)
    with pytest.raises(TypeError, match="b: expected an array"):
        kernel[1, 6]._checked_call(a, 3, 6)
    counting = smemkit.Kernel(CONSTANTS, "k")
    counting.constants["ns::one"] = 5
    counting[1, 1]._checked_call(np.zeros(1, np.float32))
    assert counting.constants["count"] == 0


def test_program_is_scanned_once():
    assert program.Program(SEVERAL_KERNELS, ()).code == kernel_on("cpu", SEVERAL_KERNELS)._program.code


# ---- variables in a check ---------------------------------------------------------------------------------------

COUNTS = """__device__ int table[2] = {5, 6};
__device__ int *second = table + 1;
__global__ void k(int *x) { *x = table[0] + *second; table[0] += 100; }"""


def checked_sum(kernel):
    x = np.zeros(1, np.int32)
    launch = kernel[1, 1]
    report = smemkit.check(launch, x)
    assert report.ok, report
    launch._checked_call(x, keep_results=True)
    return x[0]


def test_a_check_of_a_source_with_variables_compiles_once(cache_without_kernels):
    """Each launch that is checked begins with the variables as the source initialises them, pointers too."""
    kernel = smemkit.Kernel._to_check(COUNTS, None, options=())
    assert [
        checked_sum(kernel),
        checked_sum(kernel),
        checked_sum(smemkit.Kernel._to_check(COUNTS, None, options=())),
    ] == [11] * 3
    assert len(list(cache_without_kernels.glob("*.so"))) == 1


def test_a_check_has_variables_that_were_set_or_that_a_launch_changed(cache_without_kernels):
    kernel = smemkit.Kernel._to_check(COUNTS, None, options=())
    kernel._program.set_constant("table", np.array([1, 2], np.int32).tobytes())
    assert checked_sum(kernel) == 3
    kernel[1, 1](np.zeros(1, np.int32))
    assert checked_sum(kernel) == 103
    kernel.constants["table"] = np.array([5, 6], np.int32)
    assert checked_sum(kernel) == 11


# ---- address spaces and atomics of 16 bytes ---------------------------------------------------------------------

SPACES = """__constant__ int fixed[4];
__device__ int variable;
namespace inner { __constant__ float one; }
__device__ int spaces(const void *p)
{
    return __isShared(p) + 2 * __isLocal(p) + 4 * __isConstant(p) + 8 * __isGlobal(p);
}
__device__ bool returns(const void *p)
{
    return __cvta_global_to_generic(__cvta_generic_to_global(p)) == p &&
           __cvta_local_to_generic(__cvta_generic_to_local(p)) == p &&
           __cvta_constant_to_generic(__cvta_generic_to_constant(p)) == p &&
           __cvta_grid_constant_to_generic(__cvta_generic_to_grid_constant(p)) == p;
}
__global__ void k(int *x)
{
    __shared__ int s[2];
    extern __shared__ int d[];
    int mine[2] = {1, 2};
    const void *all[] = {&s[1], &d[3], &mine[1], &fixed[3], &inner::one, &variable, x + 7};
    for (int i = 0; i < 7; i++)
        x[i] = returns(all[i]) ? spaces(all[i]) : -1;
}"""


def test_each_address_is_of_one_space():
    x = np.zeros(8, np.int32)
    smemkit.Kernel(SPACES)[1, 1, 64](x)
    assert x.tolist() == [1, 1, 2, 4, 4, 8, 8, 0]
    assert not smemkit.check(smemkit.Kernel(SPACES)[1, 1, 64], x).faults


def test_grid_constants_are_refused_by_name():
    with pytest.raises(smemkit.CompileError, match="copy of a __grid_constant__ parameter"):
        smemkit.Kernel("__global__ void k(int *x) { *x = __isGridConstant(x); }")


WIDE = """struct alignas(16) Pair { long long count, sum; };
__global__ void k(Pair *total, Pair *last, long long *seen)
{
    Pair old = {0, 0}, found;
    while (true) {
        found = atomicCAS(total, old, Pair{old.count + 1, old.sum + threadIdx.x});
        if (found.count == old.count && found.sum == old.sum)
            break;
        old = found;
    }
    Pair before = atomicExch(last, Pair{1 + (long long)threadIdx.x, ~(long long)threadIdx.x});
    seen[threadIdx.x + blockDim.x * blockIdx.x] = before.count == 0 || before.sum == ~(before.count - 1);
}
__global__ void nv(Pair *total, Pair *last)
{
    Pair old, now;
    __nv_atomic_load(total, &old, __NV_ATOMIC_ACQUIRE);
    do
        now = Pair{old.count + 1, old.sum + 2};
    while (!__nv_atomic_compare_exchange(total, &old, &now, false, __NV_ATOMIC_SEQ_CST, __NV_ATOMIC_ACQUIRE));
    __nv_atomic_exchange(last, &now, &old, __NV_ATOMIC_SEQ_CST);
    __nv_atomic_store(last, &now, __NV_ATOMIC_RELEASE);
}"""


@pytest.mark.parametrize("checked", [False, True])
def test_atomics_of_16_bytes(checked):
    """Blocks run on several workers."""
    pair = np.dtype([("count", "i8"), ("sum", "i8")])
    total, last, seen = np.zeros(1, pair), np.zeros(1, pair), np.zeros(64 * 8, np.int64)
    if checked:
        for name, args in ("k", (total, last, seen)), ("nv", (total, last)):
            report = smemkit.check(smemkit.Kernel(WIDE)[name][8, 64], *args)
            assert not report.faults, report
        return
    smemkit.Kernel(WIDE)["k"][8, 64](total, last, seen)
    assert total[0].tolist() == (512, 8 * sum(range(64)))
    assert seen.all()
    smemkit.Kernel(WIDE)["nv"][8, 64](total, last)
    assert total[0].tolist() == (1024, 8 * sum(range(64)) + 1024)
