"""The driver's attributes of a launch on a GPU, with a driver that only records."""

import ctypes
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from smemkit.user_kernel import gpu_module
from smemkit.user_kernel.gpu_module import GpuModule

AXES = "WIDTH", "HEIGHT", "DEPTH"


class Namespace(SimpleNamespace):
    """An object that has every attribute: names stand for the driver's constants."""

    def __getattr__(self, name):
        return name


class Driver(Namespace):
    def __init__(self, required=(0, 0, 0)):
        super().__init__()
        self.started, self.set = [], []
        self.required = required
        self.CUlaunchConfig = SimpleNamespace
        self.CUstream = lambda handle: handle
        self.CUlaunchAttributeID = self.CUfunction_attribute = Namespace()
        self.CUlaunchAttribute = lambda: SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))
        self.cuFuncSetAttribute = lambda _, *value: self.set.append(value) or (0,)
        self.cuFuncGetAttribute = lambda name, _: (0, self.required[AXES.index(name.rpartition("_")[2])])
        self.cuLaunchKernelEx = lambda config, *_: self.started.append(config) or (0,)


@pytest.fixture
def module(monkeypatch):
    monkeypatch.setattr(gpu_module, "driver", Driver(), raising=False)
    made = object.__new__(GpuModule)
    made._functions, made._is_cooperative, made._name = {"k": "function"}, False, "cuda:0"
    made._device = SimpleNamespace(compute_capability=(9, 0))
    return made


def start(module, cluster=None, overlaps=False):
    arguments = (gpu_module.ctypes.c_void_p * 1)()
    module._start("k", (8, 2, 1), (64, 1, 1), 1024, arguments, 7, None, cluster, overlaps=overlaps)
    return gpu_module.driver.started[-1]


def test_a_plain_launch_has_no_attribute(module):
    config = start(module)
    assert (config.gridDimX, config.gridDimY, config.blockDimX, config.sharedMemBytes) == (8, 2, 64, 1024)
    assert (config.hStream, config.attrs, config.numAttrs) == (7, [], 0)


def test_the_cluster_is_an_attribute(module):
    (attribute,) = start(module, cluster=(4, 2, 1)).attrs
    assert attribute.id == "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"
    size = attribute.value.clusterDim
    assert (size.x, size.y, size.z) == (4, 2, 1)
    larger = "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
    assert (larger, 1) not in gpu_module.driver.set
    start(module, cluster=(16, 1, 1))
    assert (larger, 1) in gpu_module.driver.set


def test_older_gpus_run_one_launch_after_the_other(module):
    module._device = SimpleNamespace(compute_capability=(8, 9))
    assert start(module, overlaps=True).attrs == []


@pytest.mark.parametrize("arch", ["compute_75", "compute_90"])
def test_the_prelude_has_what_launches_that_overlap_call(arch):
    try:
        nvrtc = ctypes.CDLL("libnvrtc.so.13")
    except OSError:
        folder = Path(shutil.which("nvcc") or "/nowhere/bin/nvcc").resolve().parents[1]
        if not (found := sorted(folder.glob("lib*/libnvrtc.so.*"))):
            pytest.skip("no NVRTC")
        nvrtc = ctypes.CDLL(str(found[0]))
    source = (
        gpu_module._NVRTC_PRELUDE
        + """
__global__ void k(int *x)
{
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
    x[threadIdx.x] = 1;
}
"""
    )
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={arch}".encode())
    code = nvrtc.nvrtcCompileProgram(program, 1, options)
    said = ctypes.create_string_buffer(1 << 16)
    nvrtc.nvrtcGetProgramLog(program, said)
    assert code == 0, said.value.decode()


def test_overlap_and_cooperation_are_attributes(module):
    (attribute,) = start(module, overlaps=True).attrs
    assert attribute.id == "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
    assert attribute.value.programmaticStreamSerializationAllowed == 1
    module._is_cooperative = True
    config = start(module, cluster=(2, 1, 1), overlaps=True)
    assert config.numAttrs == 3
    assert config.attrs[0].value.cooperative == 1


@pytest.mark.parametrize(("required", "found"), [((0, 0, 0), None), ((2, 1, 1), (2, 1, 1))])
def test_the_cluster_of_the_kernel_is_asked_of_the_driver(module, required, found):
    gpu_module.driver.required = required
    assert module._read_cluster("function") == found
