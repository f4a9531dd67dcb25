"""Kernels on views: a kernel can access the whole base array of a view, as around the pointer x + 3 in CUDA."""

import numpy as np
import pytest
from cases import on
from numpy.testing import assert_array_equal
from together import Kernels

import smemkit

KERNELS = Kernels()
KERNELS.add("""
__global__ void stencil(const float *in, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    if (i >= n)
        return;
    for (int j = -3; j <= 3; j++)
        sum += in[i + j];
    out[i] = sum;
}
__global__ void shift(int *to, int *from) { to[threadIdx.x] = from[threadIdx.x]; }
__global__ void before(int *x) { x[-1] = 7; }
__global__ void element(const int *x, int i, int *y) { *y = x[i]; }
__global__ void add(float4 *x) { x[threadIdx.x].w += 1; }
__global__ void element_before(const int *x, int *y) { *y = x[-1]; }
""")
X = np.arange(70, dtype=np.float32)


def as_numpy(x):
    return x


def as_array(x):
    return smemkit.asarray(x, device="cpu")


kinds = pytest.mark.parametrize("kind", [as_numpy, as_array])


def messages(launch, *args):
    return [fault.message for fault in smemkit.check(launch, *args).faults]


@kinds
def test_elements_before_a_view_are_accessible(kind):
    stencil, x, out = KERNELS["stencil"][2, 32], kind(X), kind(np.zeros(64, np.float32))
    assert messages(stencil, x[3:], out, 64) == []
    assert messages(stencil, x[3:67], out, 64) == []
    (message,) = messages(stencil, x[2:], out, 64)
    assert message == (
        "thread (0, 0, 0) reads in[-3], and in has 68 elements of 4 bytes, with 2 more before them in the array "
        "that it is a view of"
    )
    (message,) = messages(stencil, x[4:], out, 64)
    assert "reads in[66], and in has 66 elements" in message


@kinds
def test_views_of_one_array_share_its_memory(kind):
    kernel = KERNELS["shift"][1, 9]
    y = kind(np.arange(10, dtype=np.int32))
    (fault,) = smemkit.check(kernel, y[1:], y[:-1]).faults
    assert (fault.kind, fault.hazard) == ("race", "WAR")
    assert messages(kernel, y[1:], kind(np.zeros(9, np.int32))) == []


@kinds
def test_row_views_share_their_matrix(kind):
    kernel, m = KERNELS["shift"], kind(np.arange(12, dtype=np.int32).reshape(3, 4))
    assert messages(kernel[1, 4], m[0], m[2]) == []
    assert [fault.hazard for fault in smemkit.check(kernel[1, 5], m[0], m[1]).faults] == ["WAR"]


def test_mapped_files_are_not_copied_with_a_view(tmp_path):
    kernel, size = KERNELS["before"][1, 1], 1 << 40  # sparse: too large to copy
    mapped = np.memmap(tmp_path / "x", np.int32, "w+", shape=size // 4)
    x = mapped[size // 8 : size // 8 + 5]
    for view in (x, np.asarray(x), x[2:]):
        (message,) = messages(kernel, view)
        assert message == f"thread (0, 0, 0) writes x[-1], and x has {len(view)} elements of 4 bytes"


def test_large_arrays_are_not_copied_with_a_view(monkeypatch):
    monkeypatch.setattr("smemkit.user_kernel.parameters._MAX_BASE_BYTES", 4 * 69)
    kernel, x = KERNELS["before"][1, 1], X.view(np.int32)
    assert messages(kernel, x[3:]) == ["thread (0, 0, 0) writes x[-1], and x has 67 elements of 4 bytes"]
    monkeypatch.setattr("smemkit.user_kernel.parameters._MAX_BASE_BYTES", 4 * 70)
    assert messages(kernel, x[3:]) == []


def test_a_check_does_not_change_the_base_array():
    kernel, x = KERNELS["before"][1, 1], np.zeros(5, np.int32)
    y = as_array(x)
    assert messages(kernel, x[2:]) == messages(kernel, y[2:]) == []
    assert not x.any() and not y.numpy().any()
    assert messages(kernel, x) == ["thread (0, 0, 0) writes x[-1], and x has 5 elements of 4 bytes"]


def test_launch_agrees_with_check(device):
    out = np.zeros(64, np.float32)
    with smemkit.Device(device):
        KERNELS["stencil"][2, 32](X[3:], out, 64)
        assert_array_equal(out, np.convolve(X, np.ones(7), "valid"))
        x = np.zeros(5, np.int32)
        KERNELS["before"][1, 1](x[2:])
        assert_array_equal(x, [0, 7, 0, 0, 0])
        y = np.arange(10, dtype=np.int32)
        KERNELS["shift"][1, 4](y[5:], y[1:])
        assert_array_equal(y, [0, 1, 2, 3, 4, 1, 2, 3, 4, 9])


def test_only_changed_elements_are_copied_back(monkeypatch):
    """Another thread may write to the rest of the array while the kernel runs."""
    kernel, x = smemkit.Kernel("__global__ void one(int *x) { x[threadIdx.x] = 1; }"), np.zeros(6, np.int32)
    module = type(kernel._program.module("cpu", kernel.name))
    launch = module.launch

    def launch_and_write(*args, **keywords):
        launch(*args, **keywords)
        x[4] = 5

    monkeypatch.setattr(module, "launch", launch_and_write)
    with smemkit.Device("cpu"):
        kernel[1, 2](x[1:3])
    assert_array_equal(x, [0, 1, 1, 0, 5, 0])


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],  # packed for the launch, without neighbours
        lambda x: x.T,
        lambda x: np.frombuffer(bytes(range(80)), np.int32),  # without a base array
        lambda x: np.zeros(81, np.uint8)[1:].view(np.int32),  # misaligned
    ],
)
def test_other_views_are_copied_alone(view):
    kernel = KERNELS["element"][1, 1]
    x, y = view(np.arange(24, dtype=np.int32).reshape(4, 6)), np.zeros(1, np.int32)
    assert messages(kernel, x, x.size - 1, y) == []
    assert f"reads x[{x.size}], and x has {x.size} elements of 4 bytes" in messages(kernel, x, x.size, y)[0]
    (message,) = messages(kernel, x, -1, y)
    assert message.endswith(f"reads x[-1], and x has {x.size} elements of 4 bytes")


def test_misaligned_vector_views_are_copied_alone():
    """x[1:] of floats is misaligned for float4 in its base array: only the view is copied."""
    kernel = KERNELS["add"][1, 2]
    x = np.zeros(12, np.float32)
    with smemkit.Device("cpu"):
        kernel(x[1:9])
    assert_array_equal(np.flatnonzero(x), [4, 8])


def test_elements_before_a_read_only_view_are_accessible():
    x = np.zeros(8, np.int32)
    x.flags.writeable = False
    kernel = KERNELS["element_before"][1, 1]
    assert messages(kernel, x[1:], np.zeros(1, np.int32)) == []


def test_views_on_the_device(device):
    x = on(device, X)
    out = on(device, np.zeros(64, np.float32))
    KERNELS["stencil"][2, 32](x[3:], out, 64)
    assert_array_equal(out.numpy(), np.convolve(X, np.ones(7), "valid"))
