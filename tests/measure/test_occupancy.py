"""Occupancy: the table gives the numbers of NVIDIA's cuda_occupancy.h and, on a GPU, those of the driver."""

import argparse
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases import run_python

import smemkit
from smemkit.measure.occupancy import TABLE, WARP, _Multiprocessor, _summary, add_arguments

each_capability = pytest.mark.parametrize("capability", TABLE, ids=lambda pair: "{}.{}".format(*pair))


class KernelWithCarveout:
    """The attributes of a kernel that `occupancy` uses without a GPU."""

    def __init__(self, carveout):
        self.carveout = carveout

    def _gpu_function(self, device):
        raise AssertionError("there is no GPU to ask")


# ---- the table, against NVIDIA's header ------------------------------------------------------------------------

HELPER = """
#include <cuda_occupancy.h>
#include <cstdio>
int main()
{
    cudaOccDeviceProp device;
    int warps, shared, reserved, block, dynamic, registers, carveout;
    device.maxThreadsPerBlock = 1024;
    device.warpSize = 32;
    device.numSms = 1;
    device.sharedMemPerBlock = 48 * 1024;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    while (scanf("%d %d %d %d %d %d %d %d %d", &device.computeMajor, &device.computeMinor, &warps, &shared,
                 &reserved, &block, &dynamic, &registers, &carveout) == 9) {
        cudaOccFuncAttributes function;
        cudaOccDeviceState state;
        cudaOccResult result;
        device.maxThreadsPerMultiprocessor = 32 * warps;
        device.sharedMemPerMultiprocessor = shared;
        device.sharedMemPerBlockOptin = shared - reserved;
        device.reservedSharedMemPerBlock = reserved;
        function.maxThreadsPerBlock = 1024;
        function.numRegs = registers;
        function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        function.maxDynamicSharedSizeBytes = dynamic;
        state.carveoutConfig = carveout;
        cudaOccError error =
            cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, block, dynamic);
        if (error != CUDA_OCC_SUCCESS)
            printf("%d\\n", -(int)error);
        else
            printf("%d %u\\n", result.activeBlocksPerMultiprocessor, result.limitingFactors);
    }
}
"""
FACTORS = {1: "warps", 8: "blocks", 2: "registers", 4: "shared memory"}
UNKNOWN = "-2"  # the header is older than the capability


def include_folder():
    """Where cuda_occupancy.h is; None where there is no CUDA toolkit."""
    nvcc = shutil.which("nvcc")
    roots = [os.environ.get("CUDA_HOME"), nvcc and Path(nvcc).resolve().parents[1], "/usr/local/cuda", "/usr"]
    folders = [Path(root) / "include" for root in roots if root]
    return next((folder for folder in folders if (folder / "cuda_occupancy.h").exists()), None)


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory):
    """Runs NVIDIA's calculator on rows of numbers."""
    include, compiler = include_folder(), shutil.which("c++") or shutil.which("g++")
    if include is None or compiler is None:
        pytest.skip("needs cuda_occupancy.h of a CUDA toolkit, and a C++ compiler")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "helper.cpp").write_text(HELPER)
    subprocess.run([compiler, "-w", f"-I{include}", "helper.cpp", "-o", "helper"], cwd=folder, check=True)

    def ask(rows):
        text = "\n".join(" ".join(map(str, row)) for row in rows)
        return subprocess.run([folder / "helper"], input=text, capture_output=True, text=True, check=True)

    return lambda rows: ask(rows).stdout.splitlines()


def random_launches(capability, count):
    """Random launches, many of them close to the limits: (block size, shared memory, registers, carve-out)."""
    shared = TABLE[capability][2] * 1024
    pick = random.Random(repr(capability))
    for _ in range(count):
        block = pick.choice([pick.randint(1, 1024), 32 * pick.randint(1, 32), 2 ** pick.randint(0, 10)])
        nearly = max(shared // pick.randint(1, 32) - pick.randint(-2, 10) * 128 + pick.randint(-1, 1), 0)
        dynamic = pick.choice([0, pick.randint(0, 8192), pick.randint(0, shared + 2048), nearly])
        registers = pick.choice([pick.randint(0, 255), pick.randint(16, 64), 8 * pick.randint(0, 31)])
        yield block, dynamic, registers, pick.choice([-1, -1, pick.randint(0, 100)])


@each_capability
@pytest.mark.covering(1, most=4)
def test_table_matches_cuda_occupancy_h(nvidia, capability):
    warps, _, shared = TABLE[capability]
    device = (*capability, warps, shared * 1024, 1024 if capability >= (8, 0) else 0)
    cases = list(random_launches(capability, 2000))
    answers = nvidia([*device, *case] for case in cases)
    if answers[0] == UNKNOWN:
        pytest.skip(f"this toolkit's cuda_occupancy.h does not know {capability}")
    seen = set()
    for (block, dynamic, registers, carveout), answer in zip(cases, answers, strict=True):
        found = smemkit.occupancy(
            KernelWithCarveout(None if carveout < 0 else carveout),
            block_size=block,
            shared_bytes=dynamic,
            registers=registers,
            capability=capability,
        )
        blocks, factors = map(int, answer.split())
        expected = blocks, ", ".join(name for bit, name in FACTORS.items() if factors & bit)
        assert (found.blocks, found.limited_by) == expected, (block, dynamic, registers, carveout)
        seen.add(found.limited_by)
        seen.add(found.blocks)
    assert {0, 1, *FACTORS.values()} <= seen  # the cases reach every limit


def test_the_table_is_that_of_the_programming_guide():
    names = ("warps", "blocks", "shared", "shared_per_block", "registers")
    turing, ampere, hopper = (_Multiprocessor.of_capability(pair) for pair in ((7, 5), (8, 6), (9, 0)))
    assert [getattr(turing, name) for name in names] == [32, 16, 65536, 65536, 65536]
    assert [getattr(ampere, name) for name in names] == [48, 16, 102400, 102400, 65536]
    assert [getattr(hopper, name) for name in names] == [64, 32, 233472, 233472, 65536]
    assert (turing.reserved, ampere.reserved, hopper.reserved) == (0, 1024, 1024)


# ---- text and fields -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((1024, 0, None), "2 blocks of 1024 threads, 64 of 64 warps per multiprocessor: 100 %; limited by warps"),
        (
            (1024, 0, 32),
            "2 blocks of 1024 threads, 64 of 64 warps per multiprocessor: 100 %; limited by warps, registers",
        ),
        (
            (256, 48 * 1024, None),
            "4 blocks of 256 threads, 32 of 64 warps per multiprocessor: 50 %; limited by shared memory",
        ),
        ((32, 0, None), "32 blocks of 32 threads, 32 of 64 warps per multiprocessor: 50 %; limited by blocks"),
        (
            (1, 227 * 1024, None),
            "1 block of 1 thread, 1 of 64 warps per multiprocessor: 1.56 %; limited by shared memory",
        ),
        (
            (1024, 0, 80),
            "no block of 1024 threads fits: it needs 81,920 of 65,536 registers; limited by registers",
        ),
        (
            (288, 0, 224),  # 9 warps: one of four partitions gets three, and has registers for two
            "no block of 288 threads fits: it needs 86,016 of 65,536 registers; limited by registers",
        ),
        (
            (64, 227 * 1024 + 1, 0),
            "no block of 64 threads fits: it needs 233,600 of 233,472 bytes of shared memory; "
            "limited by shared memory",
        ),
    ],
)
def test_occupancy_str(numbers, words):
    block_size, shared_bytes, registers = numbers
    found = smemkit.occupancy(
        block_size=block_size, shared_bytes=shared_bytes, registers=registers, capability=(9, 0)
    )
    assert str(found) == words
    assert words in found._repr_html_()


def test_occupancy_fields():
    found = smemkit.occupancy(block_size=96, registers=40, shared_bytes=20_000, capability="8.6")
    assert repr(found) == "Occupancy(blocks=4, warps=12, fraction=0.25, limited_by='shared memory')"
    assert (found.block_size, found.max_warps) == (96, 48)
    assert [(row.name, row.per_block, row.available, row.blocks) for row in found.resources] == [
        ("warps", 3, 48, 16),
        ("blocks", 1, 16, 16),
        # 12 warps in each of four partitions: undivided registers would give 17 blocks
        ("registers", 3 * 32 * 40, 65536, 16),
        ("shared memory", 21_120, 102_400, 4),
    ]
    assert found._repr_html_().count("<th>shared memory</th>") == 1  # only the limiting resource is highlighted
    with pytest.raises(AttributeError):
        found.blocks = 5


@each_capability
def test_without_registers_they_do_not_limit(capability):
    for block_size in range(1, 1025):
        without = smemkit.occupancy(block_size=block_size, capability=capability)
        few = smemkit.occupancy(block_size=block_size, registers=32, capability=capability)
        assert (without.blocks, without.fraction) == (few.blocks, few.fraction)
        assert "registers" not in without.limited_by


@pytest.mark.parametrize("capability", [(9, 0), "9.0", "sm_90", "sm_90a", "compute_90", np.float32(9)])
def test_a_capability_has_several_spellings(capability):
    assert smemkit.occupancy(block_size=64, capability=capability).max_warps == 64
    assert smemkit.occupancy(block_size=64, device="cpu", capability=capability).max_warps == 64


def test_a_capability_with_a_two_digit_major_number():
    assert smemkit.occupancy(block_size=64, capability="sm_120").max_warps == 48


# ---- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"block_size": 0}, ValueError, "block_size: expected 1 ... 1024 threads, got 0"),
        ({"block_size": 2000}, ValueError, "block_size: expected 1 ... 1024 threads, got 2000"),
        ({"block_size": 64.0}, TypeError, "block_size: expected an integer, got float"),
        ({"block_size": (8, 8)}, TypeError, "block_size: expected an integer, got tuple"),
        ({"registers": 256}, ValueError, "registers: expected 0 ... 255 per thread, got 256"),
        ({"registers": -1}, ValueError, "registers: expected 0 ... 255 per thread, got -1"),
        ({"registers": "32"}, TypeError, "registers: expected an integer, got str"),
        ({"shared_bytes": -1}, ValueError, "shared_bytes: expected 0 ... 2147483647 bytes, got -1"),
        ({"shared_bytes": None}, TypeError, "shared_bytes: expected an integer, got NoneType"),
        (
            {"capability": "6.1"},
            ValueError,
            "capability: expected one of 7.5, 8.0, 8.6, 8.7, 8.8, 8.9, 9.0, 10.0, ",
        ),
        ({"capability": (9,)}, ValueError, "11.0, 12.0, 12.1; got (9,)"),
        ({"capability": "9.0.0"}, ValueError, "; got '9.0.0'"),
        ({"capability": 90}, ValueError, "; got 90"),
        (
            {"capability": None, "device": "cpu"},
            ValueError,
            "capability: the device is 'cpu', which has none; give ",
        ),
        (
            {"capability": None, "device": "gpu"},
            ValueError,
            "device: expected 'cpu', 'cuda' or 'cuda:N', got 'gpu'",
        ),
        ({"device": "cuda:99"}, smemkit.NoDeviceError, "device: 'cuda:99' is not available: "),
        ({"target": "matmul"}, TypeError, "target: expected a smemkit.Kernel or None, got str"),
        (
            {"target": KernelWithCarveout(None)},
            ValueError,
            "registers: required without a GPU, where the kernel",
        ),
    ],
)
def test_invalid_arguments_are_rejected(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        smemkit.occupancy(**{"block_size": 64, "capability": (9, 0), **arguments})


def test_driver_limit_overrides_the_table():
    multiprocessor = _Multiprocessor.of_capability((9, 0))
    found = _summary(multiprocessor, 256, multiprocessor.resources(256, 0, 32, None), blocks=3)
    assert str(found).startswith("3 blocks of 256 threads, 24 of 64 warps per multiprocessor: 37.5 %; limited by ")
    assert found.limited_by == "another resource that the driver counts"


# ---- on a GPU --------------------------------------------------------------------------------------------------

gpu_only = pytest.mark.parametrize("device", ["cuda:0"], indirect=True)


@pytest.mark.gpu
@gpu_only
def test_a_gpu_agrees_with_the_table(device):
    capability = smemkit.Device(device).capability
    if capability not in TABLE:
        pytest.skip(f"{capability} is not in the table")
    assert _Multiprocessor.of_device(device) == _Multiprocessor.of_capability(capability)
    for block_size, shared_bytes, registers, _ in random_launches(capability, 200):
        numbers = {"block_size": block_size, "shared_bytes": shared_bytes, "registers": registers}
        here = smemkit.occupancy(device=device, **numbers)
        assert here == smemkit.occupancy(capability=capability, **numbers), numbers


@pytest.mark.gpu
@gpu_only
def test_a_gpu_and_a_capability_exclude_each_other(device):
    with pytest.raises(ValueError, match=r"capability: 'cuda:0' has its own; expected `device` or `cap"):
        smemkit.occupancy(block_size=64, device=device, capability="9.0")


SOURCE = """
template <int Live> __device__ float mix(const float *x)
{
    float held[Live], sum = 0;
#pragma unroll
    for (int i = 0; i < Live; i++)
        held[i] = x[i * 97 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Live; i++)
        sum = sum * held[i] + held[Live - 1 - i];
    return sum;
}
extern "C" __global__ void lean(float *x) { extern __shared__ float s[]; s[threadIdx.x] = x[0]; x[1] = s[5]; }
extern "C" __global__ void tiled(float *x)
{
    __shared__ float tile[32][33];
    tile[threadIdx.x % 32][threadIdx.x / 32] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[threadIdx.x / 32][threadIdx.x % 32] + mix<40>(x);
}
extern "C" __global__ void hungry(float *x) { x[threadIdx.x] = mix<150>(x); }
extern "C" __global__ void __launch_bounds__(256) bound(float *x) { x[threadIdx.x] = mix<40>(x); }
"""


class GpuKernel:
    """A kernel of SOURCE on a GPU, with the attributes of a smemkit.Kernel that `occupancy` uses."""

    def __init__(self, kernel, carveout=None):
        self.kernel, self.carveout = kernel, carveout

    def _gpu_function(self, device):
        return int(self.kernel.handle)


@pytest.fixture(scope="module")
def loaded():
    core = pytest.importorskip("cuda.core")
    gpu = core.Device(0)
    gpu.set_current()
    options = core.ProgramOptions(arch="sm_{}{}".format(*gpu.compute_capability))
    return core.Program(SOURCE, "c++", options).compile("cubin")


@pytest.mark.gpu
@gpu_only
@pytest.mark.parametrize("carveout", [None, 0, 30, 100])
@pytest.mark.parametrize("name", ["lean", "tiled", "hungry", "bound"])
def test_driver_agrees(device, loaded, name, carveout):
    target = GpuKernel(loaded.get_kernel(name), carveout)
    most_shared = _Multiprocessor.of_device(device).shared_per_block - 1024
    for block_size in (1, 32, 33, 96, 128, 256, 257, 512, 768, 1024):
        for shared_bytes in (0, 1, 1024, 6000, 16384, 40_000, 50_000, 100_000, most_shared):
            found = smemkit.occupancy(target, block_size=block_size, shared_bytes=shared_bytes, device=device)
            # the driver's number is that of the scarcest resource, so limited_by can name it
            assert found.blocks == min(row.blocks for row in found.resources), (block_size, shared_bytes, found)
            assert found.warps == found.blocks * -(-block_size // WARP)


@pytest.mark.gpu
@gpu_only
def test_compiled_registers_and_launch_bounds_count(device, loaded):
    hungry, bound = GpuKernel(loaded.get_kernel("hungry")), GpuKernel(loaded.get_kernel("bound"))
    assert smemkit.occupancy(hungry, block_size=256, device=device).limited_by == "registers"
    assert smemkit.occupancy(hungry, block_size=256, registers=16, device=device).fraction == 1
    too_large = smemkit.occupancy(bound, block_size=512, device=device)
    assert (too_large.blocks, too_large.limited_by) == (0, "launch bounds")
    assert "it needs 512 of 256 threads of its launch bounds" in str(too_large)


# ---- the command line ------------------------------------------------------------------------------------------


def command_line(*words):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arguments = parser.parse_args(words)
    return arguments.command(arguments)


def test_the_command_line(capsys):
    words = ["--block-size", "256", "--registers", "64", "--shared-bytes", "16384", "--capability", "9.0"]
    assert command_line(*words) == 0
    text = capsys.readouterr().out
    assert "4 blocks of 256 threads, 32 of 64 warps per multiprocessor: 50 %; limited by registers" in text
    assert re.search(r"shared memory +17,408 +233,472 +13", text)


def test_the_command_line_fails_where_no_block_fits(capsys):
    assert command_line("--block-size", "1024", "--registers", "80", "--capability", "sm_90") == 1
    assert "no block of 1024 threads fits" in capsys.readouterr().out


def test_the_module_and_the_function_do_not_collide():
    done = run_python(
        "-c", "import smemkit.measure.occupancy; print(smemkit.occupancy(block_size=8, capability='7.5').warps)"
    )
    assert done.stdout == "16\n", done.stderr
