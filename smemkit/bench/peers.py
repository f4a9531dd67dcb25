"""The peers: the same problems in torch, CuPy, NumPy, cuBLAS and CUB.

A method of a peer returns a function to be timed, or None if the peer has no such operation. `on_device`: a call
on our own buffers that enqueues on a stream; `direct`: the same on its own stream, as its user would write it;
`on_host`: from NumPy to NumPy.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from smemkit._core import Error
from smemkit.arrays import Array
from smemkit.bench.native import DATA_TYPES, GEAM_TYPES, SUM_TYPES, Native, native
from smemkit.bench.rows import Problem
from smemkit.devices import Device

Call = Callable[[], Any]


class Peer:
    """The base of all peers, which supports nothing."""

    name = ""
    version = ""

    def on_device(self, problem: Problem, out: Array) -> Callable[[int], None] | None:
        """call(stream): our operands into our `out`."""

    def direct(self, problem: Problem, out: Array) -> Call | None:
        """call(): our operands into our `out`, on the peer's own stream, with as much as possible prepared
        beforehand."""

    def to_float(self, x: Array) -> Call | None:
        """The sum of our `x` as a Python float."""

    def on_host(self, problem: Problem) -> Call | None:
        """From NumPy arrays to a NumPy array, or a scalar."""

    def upload(self, x: np.ndarray) -> Call | None:
        """A NumPy array to the device."""

    def download(self, x: np.ndarray) -> Call | None:
        """`x`, which is on the device already, into new host memory."""

    def fetch(self, x: Any) -> np.ndarray:
        """The result of `upload` or `download` as a NumPy array."""
        return np.asarray(x)


class Torch(Peer):
    name = "torch"

    def __init__(self, torch: Any, device: Device) -> None:
        self.torch, self.device, self.version = torch, device.name, torch.__version__
        torch.set_float32_matmul_precision("highest")
        torch.cuda.set_device(int(device.partition(":")[2]))

    def on_device(self, problem: Problem, out: Array) -> Callable[[int], None] | None:
        call, torch = self.direct(problem, out), self.torch
        if call is None:
            return None

        def streamed(stream: int) -> None:
            with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=self.device)):
                call()

        return streamed

    def direct(self, problem: Problem, out: Array) -> Call | None:
        if problem.op == "matmul" and "int" in problem.dtype and not problem.result:  # it multiplies none on a GPU
            return None
        torch = self.torch
        tensors = [torch.as_tensor(array, device=self.device) for array in (*problem.arrays, out)]
        if problem.op == "matmul":
            a, b, c = tensors
            if problem.result:
                return lambda: torch._int_mm(a, b, out=c)  # cuBLAS's
            return lambda: self.matmul(problem.precision or "highest", a, b, c)
        x, y = tensors
        if problem.op == "transpose":
            view = x.permute(problem.axes) if problem.axes else x.t()
            return lambda: y.copy_(view)
        call = {"min": torch.amin, "max": torch.amax}.get(problem.op) or getattr(torch, problem.reduction)
        options = {"correction": 0} if problem.op == "var" else {}
        axis = problem.axis or 0
        return lambda: call(x, dim=axis, out=y, **options)

    def matmul(self, precision: str, a: Any, b: Any, out: Any) -> None:
        torch = self.torch
        torch.set_float32_matmul_precision(precision)
        torch.matmul(a, b, out=out)
        torch.set_float32_matmul_precision("highest")

    def to_float(self, x: Array) -> Call:
        tensor = self.torch.as_tensor(x, device=self.device)
        return lambda: float(tensor.sum())

    def on_host(self, problem: Problem) -> Call:
        torch, host = self.torch, problem.host

        def call() -> Any:
            x, *more = (torch.from_numpy(array).cuda() for array in host)
            if problem.op == "reduce":
                return x.sum().item()
            return (torch.mm(x, *more) if problem.op == "matmul" else x.t().contiguous()).cpu().numpy()

        return call

    def upload(self, x: np.ndarray) -> Call:
        return lambda: self.torch.from_numpy(x).cuda()

    def download(self, x: np.ndarray) -> Call:
        tensor = self.torch.from_numpy(x).cuda()
        return lambda: tensor.cpu().numpy()

    def fetch(self, x: Any) -> np.ndarray:
        return x if isinstance(x, np.ndarray) else x.cpu().numpy()


class Cupy(Peer):
    name = "cupy"

    def __init__(self, cupy: Any, device: Device) -> None:
        self.cupy, self.version = cupy, cupy.__version__
        cupy.cuda.Device(int(device.partition(":")[2])).use()

    def on_device(self, problem: Problem, out: Array) -> Callable[[int], None] | None:
        call, cupy = self.direct(problem, out), self.cupy
        if call is None:
            return None

        def streamed(stream: int) -> None:
            with cupy.cuda.ExternalStream(stream):
                call()

        return streamed

    def direct(self, problem: Problem, out: Array) -> Call | None:
        if problem.precision or problem.result or problem.dtype == "bfloat16":  # it has none of these
            return None
        cupy = self.cupy
        arrays = [cupy.asarray(array) for array in (*problem.arrays, out)]
        if problem.op == "matmul":
            a, b, c = arrays
            return lambda: cupy.matmul(a, b, out=c)
        x, y = arrays
        if problem.op == "transpose":
            return lambda: cupy.copyto(y, x.transpose(problem.axes))
        call, axis = getattr(cupy, problem.reduction), problem.axis
        if axis is None and problem.reduction == "min":  # CuPy 14 takes `out` for the dtype there
            return lambda: cupy.copyto(y, call(x))
        return lambda: call(x, axis=axis, out=y)

    def to_float(self, x: Array) -> Call:
        array = self.cupy.asarray(x)
        return lambda: float(array.sum())

    def on_host(self, problem: Problem) -> Call:
        cupy, host = self.cupy, problem.host

        def call() -> Any:
            x, *more = map(cupy.asarray, host)
            if problem.op == "reduce":
                return float(x.sum())
            return cupy.asnumpy(cupy.matmul(x, *more) if problem.op == "matmul" else cupy.ascontiguousarray(x.T))

        return call

    def upload(self, x: np.ndarray) -> Call:
        return lambda: self.cupy.asarray(x)

    def download(self, x: np.ndarray) -> Call:
        array = self.cupy.asarray(x)
        return array.get

    def fetch(self, x: Any) -> np.ndarray:
        return x if isinstance(x, np.ndarray) else x.get()


class Numpy(Peer):
    """NumPy, which works on the host."""

    name, version = "numpy", np.__version__

    def on_host(self, problem: Problem) -> Call:
        x, *more = problem.host
        return {
            "matmul": lambda: np.matmul(x, *more),
            "reduce": x.sum,
            "transpose": lambda: np.ascontiguousarray(x.T),
        }[problem.op]


class Cublas(Peer):
    name = "cublas"

    def __init__(self, library: Native) -> None:
        self.library, self.version = library, library.versions["cublas"]

    def on_device(self, problem: Problem, out: Array) -> Callable[[int], None] | None:
        known = (
            problem.dtype in DATA_TYPES and len(problem.shape) == 3 and not (problem.precision or problem.result)
        )
        if problem.op == "matmul" and known:
            return self.library.matmul(*problem.arrays, out)
        if problem.op == "transpose" and len(problem.shape) == 2 and problem.dtype in GEAM_TYPES:
            return self.library.transpose(*problem.arrays, out)
        return None


class Cub(Peer):
    name = "cub"

    def __init__(self, library: Native) -> None:
        self.library, self.version = library, library.versions["cub"]

    def on_device(self, problem: Problem, out: Array) -> Callable[[int], None] | None:
        rows = problem.axis in (None, len(problem.shape) - 1)
        if problem.op == "reduce" and problem.dtype in SUM_TYPES and rows:
            return self.library.reduce("sum", *problem.arrays, out)
        if problem.op in ("min", "max") and problem.dtype == "float32" and problem.axis is None:
            return self.library.reduce(problem.op, *problem.arrays, out)
        return None


def find_peers(device: Device, say: Callable[[str], None]) -> dict[str, Peer]:
    """The installed peers, by name. `say` receives a message for each missing one, with the reason."""
    peers: dict[str, Peer] = {"numpy": Numpy()}
    os.environ.setdefault("CUPY_ACCELERATORS", "cub")
    for kind in (Torch, Cupy) if device.is_cuda else ():
        try:
            module = importlib.import_module(kind.name)
        except ImportError as error:
            say(f"without {kind.name}: {error}")
            continue
        if module.cuda.is_available():
            peers[kind.name] = kind(module, device)
        else:
            say(f"without {kind.name}: it finds no CUDA device")
    if device.is_cuda:
        try:
            library = native(device)
            peers |= {"cublas": Cublas(library), "cub": Cub(library)}
        except Error as error:
            say(f"without cublas and cub: {error}")
    return peers
