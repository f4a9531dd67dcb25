"""The C extension. Use the names that `smemkit` exports."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

class Error(RuntimeError): ...

class CudaError(Error):
    code: int
    name: str

class FatalCudaError(CudaError): ...
class NoDeviceError(Error): ...
class CompileError(Error): ...
class OutOfMemoryError(Error, MemoryError): ...

class Array:
    """An array in a device's memory."""

    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...]
    size: int
    itemsize: int
    nbytes: int
    ndim: int
    device: str  # "cuda:0", "cpu"
    address: int  # of element 0, …, 0 in the device's memory
    _owning_stream: int  # the handle of the stream in whose order its memory is used
    readonly: bool
    is_contiguous: bool  # in C order
    T: Array
    mT: Array  # noqa: N815
    def numpy(self) -> np.ndarray: ...
    def item(self, *index: Any) -> bool | int | float | complex: ...
    def to(self, device: str) -> Array: ...
    def astype(self, dtype: Any, *, copy: bool = True) -> Array: ...
    def copy(self) -> Array: ...
    def reshape(self, *shape: Any) -> Array: ...
    def ravel(self) -> Array: ...
    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Array: ...
    def transpose(self, *axes: Any) -> Array: ...
    def fill(self, value: Any) -> None: ...
    def tolist(self) -> Any: ...
    def get(self) -> np.ndarray: ...
    def to_device(self, device: str, *, stream: None = None) -> Array: ...
    def sum(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def prod(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def min(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def max(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        initial: Any = None,
        kernel: str | None = None,
        block_size: int | None = None,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def mean(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def var(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def std(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def any(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def all(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def count_nonzero(
        self,
        axis: int | tuple[int, ...] | None = None,
        *,
        keepdims: bool = False,
        out: Any = None,
        stream: Any = None,
    ) -> Array: ...
    def argmin(
        self, axis: int | None = None, *, keepdims: bool = False, out: Any = None, stream: Any = None
    ) -> Array: ...
    def argmax(
        self, axis: int | None = None, *, keepdims: bool = False, out: Any = None, stream: Any = None
    ) -> Array: ...
    def __getitem__(self, index: Any) -> Array: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __iter__(self) -> Iterator[Array]: ...
    def __add__(self, other: Any) -> Array: ...
    def __radd__(self, other: Any) -> Array: ...
    def __iadd__(self, other: Any) -> Array: ...
    def __sub__(self, other: Any) -> Array: ...
    def __rsub__(self, other: Any) -> Array: ...
    def __isub__(self, other: Any) -> Array: ...
    def __mul__(self, other: Any) -> Array: ...
    def __rmul__(self, other: Any) -> Array: ...
    def __imul__(self, other: Any) -> Array: ...
    def __truediv__(self, other: Any) -> Array: ...
    def __rtruediv__(self, other: Any) -> Array: ...
    def __itruediv__(self, other: Any) -> Array: ...
    def __neg__(self) -> Array: ...
    def __matmul__(self, other: Array) -> Array: ...
    def __imatmul__(self, other: Array) -> Array: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray: ...
    def __eq__(self, other: Any) -> Array: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Array: ...  # type: ignore[override]
    def __lt__(self, other: Any) -> Array: ...
    def __le__(self, other: Any) -> Array: ...
    def __gt__(self, other: Any) -> Array: ...
    def __ge__(self, other: Any) -> Array: ...
    def __round__(self, ndigits: int | None = None) -> Any: ...
    def __format__(self, specification: str) -> str: ...
    def __bool__(self) -> bool: ...
    def __copy__(self) -> Array: ...
    def __deepcopy__(self, memo: Any) -> Array: ...
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any: ...
    def __array_namespace__(self, *, api_version: str | None = None) -> Any: ...
    __hash__: None  # type: ignore[assignment]
    def __contains__(self, value: Any) -> bool: ...
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Array: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __len__(self) -> int: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...  # AttributeError on the CPU device

# All arguments below are positional; `ops.py` gives them their names and defaults.
def asarray(obj: Any, dtype: Any, device: str | None, copy: bool | None) -> Array: ...
def empty(shape: Any, dtype: Any, device: str | None) -> Array: ...
def zeros(shape: Any, dtype: Any, device: str | None) -> Array: ...
def from_dlpack(x: Any, device: str | None, copy: bool | None) -> Array: ...
def matmul(x1, x2, dtype, precision, kernel, tile, out, device, stream) -> Any: ...
def reduce(x, op, axis, dtype, keepdims, initial, ddof, kernel, block_size, out, device, stream) -> Any: ...
def transpose(x, axes, kernel, tile, pad, out, device, stream) -> Any: ...
def reverse(x, kernel, out, device, stream) -> Any: ...
def add_one(x, out, device, stream) -> Any: ...
def elementwise(function: str, x1, x2, out, device, stream) -> Any:
    """A function by the name of NumPy's ufunc: "add", "less"; x2 is ignored for "negative"."""

def convert(x, dtype, out, device, stream) -> Any: ...
def ceiling(
    kernel: str, dtype: str, x: Array, out: Array, blocks: int, in_flight: int, rounds: int, stream: int | None
) -> int:
    """Launches a kernel of the op `ceiling` without waiting for it; kernels/kernels.h describes x and out. Returns
    the bytes that it moves, or its floating-point operations."""

def wavefronts(addresses, size, store, banks, bank_width) -> tuple[int, int, int, int, tuple[int, ...], int]:
    """The fields of `smemkit.Access`, and the number of consecutive lanes that are served together."""

def checked(
    function: Callable[[], Any],
    blocks: int,
    schedule: int,
    seed: int,
    all_blocks_rows: bytes | None,
    completion: int,
) -> list[dict[str, Any]]:
    """Calls `function` and checks its launches on the CPU device: `blocks` blocks of each (0: all), but all blocks
    of the kernel table's rows whose bytes in `all_blocks_rows` are not 0. The schedule is 0 serial, 1 lockstep, 2
    random; the completion of asynchronous copies 0 early, 1 late. Returns a dict per launch;
    smemkit/checker/findings.py knows the keys."""

def chain_launch(overtakes: bool) -> None:
    """Inside a check: the next launch is one of a chain, and may begin before the one before it has ended."""

def load_checked(path: str) -> None:
    """Loads the library of the kernels' checked builds."""

def renamed_kernels() -> dict[tuple[str, str], str]:
    """Former names of kernels: {(op, old name): name}."""

def kernel_rows() -> list[dict[str, Any]]:
    """A dict per row of the kernel table, in its order: op, name, order, needs ("host", "any", "sm_80", "sm_90a"),
    devices (tuple of "cuda", "cpu": where this build can launch it), dtypes (tuple of NumPy names), sizes,
    pads (tuples of int, default first), precision ("highest", "high"), role ("rung", "production", "ceiling"),
    default (bool), recorded_dtypes (tuple of NumPy names), summary, file ("matmul/ladder/20_tiled.cu")."""

def allocations() -> int:
    """For tests: the number of live allocations on devices."""

def fail_launch(countdown: int, signal: int = 0) -> int:
    """For tests: the countdown-th launch from now on fails; 0: none. With a signal, that launch raises the signal,
    and fails if the signal's handler raises. Returns the rest of the previous countdown."""

def fail_allocation(countdown: int) -> int:
    """For tests: the countdown-th allocation on a device from now on fails; 0: none. Returns the rest of the
    previous countdown."""

def set_part_bytes(n: int) -> int:
    """For tests: calls with host arrays run in parts of about n bytes, also on the CPU device; 0: in parts of the
    best size on a GPU, and undivided on the CPU device. Returns the previous value."""

def memory_stats(device: str | None) -> tuple[int, int, int]:
    """Bytes of a device's memory: those that arrays and calls use, their peak, and all that smemkit holds."""

def empty_cache(device: str | None) -> None:
    """Releases the device memory that smemkit holds for later calls."""

def pinned_copy_seconds(device: str | None, nbytes: int, to_device: bool) -> float:
    """The time of a copy between a GPU and pinned host memory."""

def close() -> None:
    """Ends the threads of the copy pool; later copies run without them."""

def launches() -> int:
    """The number of launchers of the kernel table that this process has called, on all devices."""

def device_names() -> list[str]:
    """The devices that work, CUDA first: ["cuda:0", "cpu"]."""

def device_properties(name: str) -> dict[str, Any]:
    """The fields of `struct device_properties` (csrc/device/device.h), under their names."""

def cuda_unavailable() -> str | None:
    """Why there is no CUDA device, and the remedy; None if there is one."""

def build_info() -> dict[str, Any]:
    """compiler, cuda (None or the toolkit's version), archs, fibers ("x86-64", "aarch64", "portable")."""

def default_device() -> str: ...
def set_default_device(name: str | None) -> str | None:
    """Sets this thread's default device (None: back to the process's choice); returns the previous one."""

def synchronize(device: str | None) -> None: ...
def set_num_threads(n: int) -> None: ...
def get_num_threads() -> int: ...
def dry_run(
    fn: Callable[..., Any], args: tuple, kwargs: dict
) -> list[tuple[str, str, int, int, str | None, int, bool]]: ...
def dry_run_as(
    capability: int,
    multiprocessors: int,
    l2_bytes: int,
    op: str,
    thresholds: Sequence[int] | None,
    fn: Callable[..., Any],
    args: tuple,
    kwargs: dict,
) -> list[tuple[str, str, int, int, str | None, int, bool]]:
    """A dry run as on a device with these attributes, and with these thresholds of an op's policy."""

def thresholds(op: str, capability: int, multiprocessors: int) -> list[tuple[str, int, str, bool, bool, str]]:
    """Of "transpose", "reduce" or "matmul": name, value, unit, whether it grows with the GPU, whether it decides
    nothing but the choice of a kernel, explanation."""

def least_k_of_matmul(kernel: str) -> int:
    """The least k for which kernel=None may choose a kernel: its shorter sums can be less accurate than those of
    float32. 0: any."""

def predicted_matmul_times(
    multiprocessors: int,
    thresholds: Sequence[int],
    kernel: str,
    problems: list[tuple[Any, int, int, int, int]],
) -> list[float | None]:
    """The microseconds that the policy expects of a kernel on a GPU of so many multiprocessors, for
    problems (dtype, batches, m, n, k); None where it expects nothing."""

def set_tuned_thresholds(device: str, thresholds: Sequence[int] | None) -> None:
    """Replaces a device's thresholds of transposes; None: the policy's own again."""

def tuned_thresholds(device: str) -> tuple[int, ...] | None: ...
def timed(fn: Callable[..., Any], args: tuple, kwargs: dict) -> tuple[Any, tuple[float, float, float, float]]:
    """fn(*args, **kwargs) and the seconds (upload, kernel, download, total) that smemkit's calls in it took."""

def mark(device: str, stream: Any = None) -> Event:
    """Records an event and returns it."""

def current_stream(device: str | None) -> Stream | None:
    """The innermost stream of the device that this thread has entered."""

class Event:
    """A point in the work of a device's stream."""

    device: str  # "cuda:0", "cpu"
    done: bool  # whether the work before it is complete; True if nothing was recorded
    def __init__(self, *, device: str | None = None) -> None: ...
    def record(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...
    def seconds_since(self, earlier: Event, /) -> float:
        """Waits for this event; the seconds from `earlier` to it."""

class Stream:
    """Its work runs in order, concurrently with other streams. `with` makes it the thread's current stream."""

    device: str  # "cuda:0", "cpu"
    handle: int  # 0 for the legacy default stream, and on the CPU device
    synchronous: bool  # whether operations wait for their work while it is current
    done: bool  # whether all its work is complete
    def __init__(self, source: Any = None, *, device: str | None = None, synchronous: bool = False) -> None: ...
    def synchronize(self) -> None: ...
    def record(self) -> Event: ...
    def wait(self, other: Any, /) -> None:
        """Later work on this stream waits for an Event, or for all present work on another stream."""

    def __cuda_stream__(self) -> tuple[int, int]: ...
    def __enter__(self) -> Stream: ...
    def __exit__(self, *exception: object) -> None: ...

class Graph:
    """A CUDA graph of what `call(stream)` enqueues, `inner` times, between two events; with flush_bytes,
    that many bytes are written first, outside the two events, so that L2 is cold."""

    def __init__(
        self, call: Callable[[int], Any], device: str, inner: int = 1, flush_bytes: int = 0, warmup: int = 1
    ) -> None: ...
    def replay(self) -> float:
        """Runs it once, waits, returns the seconds between the events divided by inner."""
