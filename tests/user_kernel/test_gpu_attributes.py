"""The driver's attributes of a launch on a GPU, with a driver that only records."""

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
    assert module.cluster("k") == found
