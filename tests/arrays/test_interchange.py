"""Arrays of other libraries as operands, as `out` and as Arrays, and Arrays as theirs, without copies."""

import ctypes

import ml_dtypes
import numpy as np
import pytest
from capsules import Exporter, read_capsule
from cases import DTYPES, expect_launches, integers, numbered, on, small_problem
from numpy.testing import assert_array_equal

import smemkit
from smemkit import _core

X = numbered((3, 4), np.float32)
NUMPY_DTYPES = [dtype for dtype in DTYPES if dtype != "bfloat16"]  # NumPy's DLPack has no bfloat16
VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "sliced": lambda x: x[1:, ::2],
    "row": lambda x: x[2],
    "reversed": lambda x: x[::-1, ::-3],
    "none": lambda x: x[:0],
    "one": lambda x: x[1, 2],
    "added": lambda x: x[:, None, 1:2],
    "repeated": lambda x: np.broadcast_to(x, (2, *x.shape)),
}


# ---- from the host ----------------------------------------------------------------------------------------------


class DLPackOnly:
    """An object with only the protocol's two methods."""

    def __init__(self, x):
        self.x = x

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self.x.__dlpack__(**keywords)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.covering(1)
def test_host_dlpack_operand(device, dtype, view):
    x = np.asarray(VIEWS[view](integers((3, 7), dtype)))
    result = smemkit.convert(DLPackOnly(x), device=device)
    assert isinstance(result, np.ndarray | np.generic)
    assert_array_equal(result, x, strict=True)


def test_host_dlpack_bfloat16(device):
    x = np.arange(8).astype(ml_dtypes.bfloat16)
    exporter = Exporter(x)
    result = smemkit.reverse(exporter, device=device)
    assert result.dtype == ml_dtypes.bfloat16
    assert_array_equal(result, x[::-1])
    assert_array_equal(smemkit.from_dlpack(Exporter(x)).numpy(), x)


def test_host_dlpack_out(device):
    out = DLPackOnly(np.zeros((4, 3), np.float64)[::-1])
    assert smemkit.transpose(X, out=out, device=device) is out
    assert_array_equal(out.x, X.T)
    with expect_launches(0), pytest.raises(ValueError, match=r"out: expected shape \(4, 3\), got \(2, 3\)"):
        smemkit.transpose(X, out=DLPackOnly(np.zeros((2, 3), np.float32)), device=device)


def test_host_out_is_rejected_for_device_operands(device):
    message = (
        f"out: expected {'a smemkit.Array' if device == 'cpu' else 'an array on a GPU'} like the operands, got "
    )
    with pytest.raises(TypeError, match=message + "DLPackOnly on the host; asarray"):
        smemkit.add_one(on(device, X), out=DLPackOnly(np.zeros_like(X)))


# ---- host memory as an Array ------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.covering(1)
def test_from_dlpack_shares(dtype, view):
    x = VIEWS[view](integers((3, 7), dtype))
    if not isinstance(x, np.ndarray):
        x = np.asarray(x)
    y = smemkit.from_dlpack(x)
    there = np.from_dlpack(y)
    assert (y.shape, y.device) == (x.shape, "cpu")
    assert_array_equal(there, x, strict=True)
    if x.size:
        assert there.ctypes.data == x.ctypes.data
        assert [s for s, n in zip(there.strides, x.shape, strict=True) if n > 1] == [
            s for s, n in zip(x.strides, x.shape, strict=True) if n > 1
        ]
    if x.size and x.flags.writeable:
        x[...] = x.dtype.type(0)
        assert_array_equal(there, x, strict=True)
    assert there.flags.writeable == (x.flags.writeable or not x.size)


@pytest.mark.parametrize("view", VIEWS)
def test_operations_on_what_is_shared(view):
    x = VIEWS[view](integers((3, 7), np.int32))
    y = smemkit.from_dlpack(np.asarray(x))
    assert smemkit.sum(y).item() == x.sum()
    assert_array_equal(smemkit.transpose(y).numpy(), np.asarray(x).T, strict=True)


def test_checker_accepts_shared_host_memory():
    x = smemkit.from_dlpack(numbered((33, 70), np.float32)[1:, ::2])
    report = smemkit.check(smemkit.sum, x, block_size=128)
    assert report.ok, str(report)
    assert report.lines
    out = smemkit.from_dlpack(np.zeros((35, 32), np.float32))
    report = smemkit.check(smemkit.transpose, x, kernel="padded", out=out)
    assert report.ok, str(report)


def test_checker_finds_overruns_of_shared_host_memory():
    kernel = smemkit.Kernel("__global__ void past(float *x) { x[threadIdx.x] = 1; }")
    x = np.zeros(64, np.float32)
    report = smemkit.check(kernel[1, 32], smemkit.from_dlpack(x[:31]))
    assert [fault.kind for fault in report.faults] == ["out_of_bounds"]
    assert smemkit.check(kernel[1, 32], smemkit.from_dlpack(x[:32])).ok


def test_shared_host_memory_is_released():
    x = np.zeros(64, np.float32)
    before = _core.allocations()
    for _ in range(1000):
        smemkit.from_dlpack(x)
    y = [smemkit.from_dlpack(x), smemkit.from_dlpack(x[:32]), smemkit.from_dlpack(np.from_dlpack(on("cpu", X)))]
    assert [smemkit.sum(a).item() for a in y] == [0, 0, 78]
    del y
    assert _core.allocations() == before


def test_from_dlpack_of_an_array(device):
    x = on(device, X)
    assert smemkit.from_dlpack(x) is x
    copy = smemkit.from_dlpack(x, copy=True)
    smemkit.add_one(x, out=x)
    assert_array_equal(copy.numpy(), X)
    assert smemkit.from_dlpack(x, device="cpu").device == "cpu"


def test_from_dlpack_copies_and_moves(device):
    x = X.copy()
    y = smemkit.from_dlpack(x, device=device, copy=True)
    x[...] = 0
    assert y.device == device
    assert_array_equal(y.numpy(), X, strict=True)
    if device != "cpu":
        with pytest.raises(ValueError, match="copy: False is impossible here"):
            smemkit.from_dlpack(x, device=device, copy=False)


def test_misaligned_elements():
    x = np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float32)
    with pytest.raises(ValueError, match=r"x: expected aligned elements, at multiples of their size; asarray\(\)"):
        smemkit.from_dlpack(Exporter(x))
    assert smemkit.sum(Exporter(x), device="cpu") == 0
    with pytest.raises(BufferError):
        smemkit.from_dlpack(X.astype(">f4"))


# ---- export through DLPack --------------------------------------------------------------------------------------


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_capsule_contents(device, dtype, versioned):
    x = on(device, integers((3, 5), dtype))
    capsule = x.__dlpack__(max_version=(1, 1) if versioned else None)
    managed = read_capsule(capsule, versioned)
    tensor = managed.tensor
    kind = np.dtype(dtype).kind
    code = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5, "V": 4}[kind]
    assert (tensor.code, tensor.bits, tensor.lanes) == (code, 8 * np.dtype(dtype).itemsize, 1)
    assert (tensor.ndim, tensor.shape[:2], tensor.strides[:2], tensor.byte_offset) == (2, [3, 5], [5, 1], 0)
    assert (
        (tensor.device_type, tensor.device_id)
        == x.__dlpack_device__()
        == ((1, 0) if device == "cpu" else (2, int(device[5:])))
    )
    if versioned:
        assert (managed.major, managed.minor, managed.flags) == (1, 1, 0)
        newest = x.__dlpack__(max_version=(2, 0))
        assert (read_capsule(newest, True).major, read_capsule(newest, True).minor) == (1, 3)
        copied = x.__dlpack__(max_version=(1, 0), copy=True)
        assert read_capsule(copied, True).minor == 0
        assert read_capsule(copied, True).flags == 2
        assert read_capsule(copied, True).tensor.data != tensor.data


def test_read_only_in_a_capsule():
    x = X.copy()
    x.flags.writeable = False
    y = smemkit.from_dlpack(x)
    assert read_capsule(y.__dlpack__(max_version=(1, 0)), True).flags == 1
    message = "this array is read-only, which DLPack can express from version 1.0 on; expected max_version"
    for version in (None, (0, 8)):
        with pytest.raises(BufferError, match=message):
            y.__dlpack__(max_version=version)
    assert read_capsule(y.__dlpack__(copy=True)).tensor.ndim == 2  # a copy is writeable


def test_export_to_the_host(device):
    x = on(device, X)
    there = np.from_dlpack(x, device="cpu") if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else x.numpy()
    assert_array_equal(there, X, strict=True)
    capsule = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
    assert read_capsule(capsule, True).tensor.device_type == 1
    assert read_capsule(capsule, True).flags == (0 if device == "cpu" else 2)
    values = ctypes.cast(read_capsule(capsule, True).tensor.data, ctypes.POINTER(ctypes.c_float))[: X.size]
    assert_array_equal(values, X.ravel())
    if device != "cpu":
        with pytest.raises(
            BufferError, match=f"copy: False is impossible, the host has no access to memory of {device}"
        ):
            x.__dlpack__(dl_device=(1, 0), copy=False)


REFUSALS = {
    "stream, type": (
        {"stream": "1"},
        TypeError,
        "stream: expected None, -1, 1, 2 or the handle of a stream, got '1'",
    ),
    "stream, bool": ({"stream": True}, TypeError, "stream: expected None, -1, 1, 2 or the handle of a stream"),
    "stream 0": ({"stream": 0}, ValueError, "stream: expected None, -1, 1, 2 or the handle of a stream, got 0"),
    "stream -2": ({"stream": -2}, ValueError, "stream: expected None, -1, 1, 2 or the handle of a stream, got -2"),
    "version": ({"max_version": 1}, TypeError, "max_version: expected None or two integers, got 1"),
    "version, three": ({"max_version": (1, 0, 0)}, TypeError, "max_version: expected None or two integers"),
    "version, texts": ({"max_version": ("1", "0")}, TypeError, "max_version: 'str' object cannot be interpreted"),
    "device": ({"dl_device": "cpu"}, TypeError, "dl_device: expected None or two integers, got 'cpu'"),
    "ROCm": ({"dl_device": (10, 0)}, BufferError, "dl_device: an array on {} can be exported there"),
    "another": ({"dl_device": (2, 99)}, BufferError, "dl_device: an array on {} can be exported there"),
    "copy": ({"copy": 1}, TypeError, "copy: expected True, False or None, got 1"),
    "more": ({"order": "C"}, TypeError, "order"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals_of_dlpack(device, what):
    keywords, error, message = REFUSALS[what]
    if device == "cpu" and "stream" in keywords:
        error, message = ValueError, "stream: the CPU device has no streams, expected None, got "
    with pytest.raises(error, match=message.format(device)):
        on(device, X).__dlpack__(**keywords)
    with pytest.raises(TypeError):
        on(device, X).__dlpack__(None)


# ---- on a GPU ---------------------------------------------------------------------------------------------------

GPU = pytest.mark.parametrize("device", ["cuda:0"], indirect=True)


def import_torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    return torch


class Torch:
    dtypes = tuple(dtype for dtype in DTYPES if dtype not in ("uint16", "uint32", "uint64"))
    negative = False

    def __init__(self):
        self.torch = import_torch()

    def from_numpy(self, x):
        if x.dtype == ml_dtypes.bfloat16:
            return self.torch.from_numpy(x.view(np.int16).copy()).cuda().view(self.torch.bfloat16)
        return self.torch.from_numpy(x.copy()).cuda()

    def to_numpy(self, y):
        if y.dtype == self.torch.bfloat16:
            return y.contiguous().view(self.torch.int16).cpu().numpy().view(ml_dtypes.bfloat16)
        return y.cpu().numpy()

    def address(self, y):
        return y.data_ptr()

    def importers(self, dtype):
        functions = [self.torch.from_dlpack]
        if dtype != "bfloat16":
            functions.append(lambda a: self.torch.as_tensor(a, device="cuda"))
        return functions


class CuPy:
    dtypes = NUMPY_DTYPES
    negative = True

    def __init__(self):
        self.cupy = pytest.importorskip("cupy")

    def from_numpy(self, x):
        return self.cupy.asarray(x)

    def to_numpy(self, y):
        return y.get()

    def address(self, y):
        return y.data.ptr

    def importers(self, dtype):
        return [self.cupy.from_dlpack, self.cupy.asarray]


class Numba:
    dtypes = tuple(dtype for dtype in NUMPY_DTYPES if dtype != "float16")
    negative = True

    def __init__(self):
        pytest.importorskip("numba")
        self.cuda = pytest.importorskip("numba.cuda")

    def from_numpy(self, x):
        return self.cuda.to_device(x)

    def to_numpy(self, y):
        return y.copy_to_host()

    def address(self, y):
        return y.__cuda_array_interface__["data"][0]

    def importers(self, dtype):
        return [self.cuda.as_cuda_array]


class Jax:
    dtypes = tuple(dtype for dtype in DTYPES if dtype not in ("int64", "uint64", "float64", "complex128"))
    negative = False

    def __init__(self):
        self.jax = pytest.importorskip("jax")
        if not any(device.platform == "gpu" for device in self.jax.devices()):
            pytest.skip("jax has no GPU")

    def from_numpy(self, x):
        return self.jax.device_put(x, self.jax.devices("gpu")[0]).block_until_ready()

    def to_numpy(self, y):
        return np.asarray(y)

    def address(self, y):
        return y.unsafe_buffer_pointer()

    def importers(self, dtype):
        return [self.jax.dlpack.from_dlpack]


LIBRARIES = {"torch": Torch, "cupy": CuPy, "numba": Numba, "jax": Jax}
LIBRARY_DTYPES = [
    pytest.param("cuda:0", name, dtype, marks=pytest.mark.gpu, id=f"{name}-{dtype}")
    for name, library in LIBRARIES.items()
    for dtype in library.dtypes
]
each_library_dtype = pytest.mark.parametrize(("device", "name", "dtype"), LIBRARY_DTYPES, indirect=["device"])
each_library = pytest.mark.parametrize(
    ("device", "name"),
    [pytest.param("cuda:0", name, marks=pytest.mark.gpu, id=name) for name in LIBRARIES],
    indirect=["device"],
)


@each_library_dtype
def test_foreign_operand(device, name, dtype):
    library = LIBRARIES[name]()
    x = integers((5, 7), dtype)
    y = library.from_numpy(x)
    with expect_launches(1):
        result = smemkit.convert(y)
    assert (type(result), result.device) == (smemkit.Array, device)
    assert_array_equal(result.numpy(), x, strict=True)
    assert_array_equal(smemkit.transpose(y).numpy(), x.T, strict=True)
    assert_array_equal(smemkit.max(y, axis=0).numpy(), smemkit.max(x, axis=0, device="cpu"), strict=True)
    assert_array_equal(library.to_numpy(y), x)


@each_library_dtype
def test_foreign_array_as_array(device, name, dtype):
    library = LIBRARIES[name]()
    x = integers((5, 7), dtype)
    y = library.from_numpy(x)
    shared = smemkit.asarray(y)
    assert (shared.address, shared.device, shared.dtype) == (library.address(y), device, x.dtype)
    assert_array_equal(shared.numpy(), x, strict=True)
    if hasattr(y, "__dlpack__"):
        assert smemkit.from_dlpack(y).address == library.address(y)
        assert smemkit.from_dlpack(y, copy=True).address != library.address(y)
    address = shared.address
    again = library.from_numpy(x)
    del y
    assert shared.address == address != library.address(again)  # the Array keeps the memory
    assert_array_equal(shared.numpy(), x, strict=True)


@each_library_dtype
def test_export_to_other_libraries(device, name, dtype):
    library = LIBRARIES[name]()
    x = integers((5, 7), dtype)
    array = on(device, x)
    for take in library.importers(dtype):
        y = take(array)
        assert library.address(y) == array.address
        assert_array_equal(library.to_numpy(y), x)
        empty = take(smemkit.empty((0, 3), dtype, device=device))
        assert tuple(empty.shape) == (0, 3)
        element = take(on(device, x[1, 2]))
        assert tuple(element.shape) == ()
        assert library.to_numpy(element) == x[1, 2]


@each_library
@pytest.mark.parametrize("view", VIEWS)
def test_foreign_views(device, name, view):
    library = LIBRARIES[name]()
    if (view == "reversed" and not library.negative) or (view == "repeated" and name != "torch"):
        pytest.skip(f"{name} has no such view")
    x = integers((5, 7), np.float32)
    y = library.from_numpy(x)
    expected = VIEWS[view](x)
    try:
        theirs = VIEWS[view](y) if view != "repeated" else y.expand(2, *y.shape)
    except (AttributeError, TypeError, IndexError, NotImplementedError, ValueError):
        pytest.skip(f"{name} has no such view")
    if not hasattr(theirs, "__cuda_array_interface__") and not hasattr(theirs, "__dlpack__"):
        pytest.skip(f"{name} has no such view")
    shared = smemkit.asarray(theirs)
    assert shared.shape == expected.shape
    if expected.size and name in ("torch", "cupy"):
        assert shared.address == library.address(theirs)
    assert_array_equal(shared.numpy(), expected)
    assert_array_equal(smemkit.convert(theirs).numpy(), expected)
    assert smemkit.sum(theirs).item() == expected.sum()


@each_library
def test_foreign_out(device, name):
    library = LIBRARIES[name]()
    if name == "jax":
        pytest.skip("jax's arrays are immutable")
    x = integers((5, 7), np.float32)
    out = library.from_numpy(np.zeros((7, 5), np.float32))
    assert smemkit.transpose(library.from_numpy(x), out=out) is out
    assert_array_equal(library.to_numpy(out), x.T)
    assert smemkit.transpose(on(device, x + 1), out=out) is out
    assert_array_equal(library.to_numpy(out), x.T + 1)
    with (
        expect_launches(0),
        pytest.raises(TypeError, match=r"out: expected a numpy.ndarray like .* on a GPU; asarray\(\)"),
    ):
        smemkit.transpose(x, out=out)


@each_library
def test_foreign_and_numpy_operands_are_rejected(device, name):
    y = LIBRARIES[name]().from_numpy(X.T)
    message = "operands: expected all NumPy arrays or all arrays on one device, got numpy.ndarray and .* on cuda:0"
    for operands in ((X, y), (y, X)):
        with expect_launches(0), pytest.raises(TypeError, match=message):
            smemkit.matmul(*operands)
    with expect_launches(0), pytest.raises(ValueError, match="expected arrays on one device, got cuda:0 and cpu"):
        smemkit.matmul(y, on("cpu", X))


@each_library
def test_foreign_operands_in_every_operation(device, name):
    library = LIBRARIES[name]()
    for op in ("matmul", "reduce", "transpose", "reverse", "add_one", "convert"):
        operands, expected = small_problem(op, "float32")
        result = getattr(smemkit, op)(*map(library.from_numpy, operands))
        assert result.device == device
        assert_array_equal(result.numpy(), expected)


@pytest.mark.gpu
@GPU
def test_exported_strides(device):
    torch = import_torch()
    x = smemkit.asarray(torch.arange(12.0, device="cuda").reshape(3, 4)[1:, ::2])
    interface = x.__cuda_array_interface__
    assert (interface["shape"], interface["strides"], interface["stream"]) == ((2, 2), (16, 8), 1)
    assert torch.from_dlpack(x).stride() == torch.as_tensor(x, device="cuda").stride() == (4, 2)
    assert smemkit.empty(0, device=device).__cuda_array_interface__["data"] == (0, False)


@pytest.mark.gpu
@GPU
def test_tensors_that_require_grad_are_rejected(device):
    torch = import_torch()
    with expect_launches(0), pytest.raises((BufferError, RuntimeError), match="grad"):
        smemkit.sum(torch.ones(3, device="cuda", requires_grad=True))


def test_a_cpu_tensor(device):
    torch = pytest.importorskip("torch")
    x = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    result = smemkit.transpose(x, device=device)
    assert (type(result), result.dtype) == (np.ndarray, ml_dtypes.bfloat16)
    assert_array_equal(result.astype(np.float32), x.T.float().numpy())
    shared = smemkit.from_dlpack(x)
    assert (shared.device, shared.address) == ("cpu", x.data_ptr())
    out = torch.zeros((4, 3), dtype=torch.bfloat16)
    assert smemkit.transpose(x, out=out, device=device) is out
    assert torch.equal(out, x.T)


@pytest.mark.gpu
@GPU
def test_work_waits_for_the_producer_stream(device):
    torch = import_torch()
    stream = torch.cuda.Stream()
    for i in range(50):
        with torch.cuda.stream(stream):
            x = torch.full((1 << 22,), 1.0, device="cuda")
            for _ in range(20):
                x += 1
            result = smemkit.sum(x)
            x += i  # after smemkit has used it
        del x
        assert result.item() == 21 * (1 << 22)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("view", [lambda t: t, lambda t: t[::2]], ids=["whole", "sliced"])
def test_producer_stream_waits_for_out(device, view):
    torch = import_torch()
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("torch has the exchange API, which exposes its stream, from 2.10 on")
    stream = torch.cuda.Stream()
    whole = torch.empty(1 << 24, device="cuda")
    torch.cuda.synchronize()
    for i in range(100):
        with torch.cuda.stream(stream):
            whole.fill_(i)
            t = view(whole)
            assert smemkit.add_one(t, out=t) is t
            later = t + 1
            low, high = later.aminmax()
            assert (low.item(), high.item()) == (i + 2, i + 2)


@pytest.mark.gpu
@GPU
def test_conjugate_views_are_rejected(device):
    torch = import_torch()
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("torch has the exchange API, which exposes its stream, from 2.10 on")
    x = torch.full((3, 4), 1 + 2j, device="cuda")
    assert smemkit.sum(x).item() == 12 + 24j
    for y in (x.conj(), x.conj().imag):
        with expect_launches(0), pytest.raises(BufferError, match=r"conjugate|resolve_neg"):
            smemkit.sum(y)
        assert smemkit.sum(y.resolve_conj().resolve_neg()).item() == y.sum().item()


@pytest.mark.gpu
@GPU
def test_foreign_memory_is_not_reused_too_early(device):
    torch = import_torch()
    ours = torch.cuda.Stream()
    for i in range(50):
        x = torch.full((1 << 22,), float(i % 7), device="cuda")
        result = smemkit.sum(x, stream=ours)
        del x
        torch.full((1 << 22,), -1.0, device="cuda")  # reuses the same memory as soon as it is free
        torch.cuda.synchronize()
        assert result.item() == i % 7 * (1 << 22)


@pytest.mark.gpu
@GPU
def test_exported_memory_is_not_reused_too_early(device):
    torch = import_torch()
    stream = torch.cuda.Stream()
    for i in range(50):
        x = smemkit.asarray(np.full(1 << 22, i % 7, np.float32), device=device)
        with torch.cuda.stream(stream):
            y = torch.from_dlpack(x)
            for _ in range(20):
                total = y.sum()
        del x, y
        smemkit.asarray(np.full(1 << 22, -1, np.float32), device=device)
        stream.synchronize()
        assert total.item() == i % 7 * (1 << 22)
