"""NVIDIA's libraries as peers: native.cu, compiled at its first use and cached."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from smemkit._core import Error
from smemkit.arrays import Array, empty
from smemkit.devices import Device
from smemkit.user_kernel.cache import cache_folder

DATA_TYPES = {"float32": 0, "float16": 2}  # cudaDataType
GEAM_TYPES = ("float32", "float64", "complex128")
SUM_TYPES = {"float32": "f", "float64": "d", "int8": "b", "int32": "i"}  # as in native.cu


def find_nvcc() -> Path:
    """nvcc from $CUDA_HOME, from PATH or from CUDA's usual folder."""
    home = os.environ.get("CUDA_HOME")
    for path in (home and Path(home, "bin/nvcc"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"):
        if path and Path(path).is_file():
            return Path(path).resolve()
    raise Error("nvcc was not found; set CUDA_HOME to a toolkit with cuBLAS and CUB")


def build(capability: tuple[int, int]) -> Path:
    """The library for GPUs of this compute capability, from the cache or from nvcc.

    Raises
    ------
    Error
        There is no nvcc, or it cannot compile this: its toolkit has no cuBLAS, or no CUB.
    """
    nvcc = find_nvcc()
    source = Path(str(files("smemkit.bench").joinpath("native.cu")))
    command = [str(nvcc), "-std=c++17", "-O3", "-shared", "-Xcompiler=-fPIC", "-arch=sm_{}{}".format(*capability)]
    for folder in (nvcc.parents[1] / name for name in ("lib64", "lib")):
        if folder.is_dir():
            command += [f"-L{folder}", f"-Xlinker=-rpath={folder}"]
    status = nvcc.stat()
    identity = [*command, str(status.st_mtime_ns), source.read_text(encoding="utf-8")]
    library = cache_folder() / f"bench-{hashlib.sha256(chr(0).join(identity).encode()).hexdigest()[:32]}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(prefix=".new-", dir=library.parent) as new:
            made = Path(new, library.name)
            done = subprocess.run([*command, source, "-o", made, "-lcublas"], capture_output=True, text=True)
            if done.returncode:
                errors = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
                raise Error(f"nvcc cannot compile native.cu: {errors[0]}")
            made.replace(library)
    return library


_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_ARGUMENTS = {
    "use_device": [_INT],
    "blas_create": [ctypes.POINTER(_POINTER)],
    "blas_matmul": [_POINTER, _INT, _SIZE, _SIZE, _SIZE, _POINTER, _POINTER, _POINTER, _POINTER],
    "blas_transpose": [_POINTER, _INT, _SIZE, _SIZE, _POINTER, _POINTER, _POINTER],
    "cub_reduce": [
        *(_INT, _INT, _POINTER, _POINTER, _SIZE, _SIZE),
        *(_POINTER, ctypes.POINTER(ctypes.c_size_t), _POINTER),
    ],
    "launch_empty": [_INT, _INT, ctypes.POINTER(ctypes.c_double)],
}


def address(array: Array) -> int:
    """The array's address on the device."""
    return array.__cuda_array_interface__["data"][0]


class Native:
    """The library, loaded for a device; its methods enqueue on a stream, and return once it is enqueued."""

    def __init__(self, device: Device) -> None:
        try:
            self.library = ctypes.CDLL(str(build(device.capability)))
        except OSError as error:
            raise Error(str(error)) from error
        for name, types in _ARGUMENTS.items():
            getattr(self.library, name).argtypes = types
        self.device, self.blas = device, _POINTER()
        self.call("use_device", int(device.partition(":")[2]))
        self.call("blas_create", ctypes.byref(self.blas))

    @property
    def versions(self) -> dict[str, str]:
        """{"cublas": "13.1.0", "cub": "3.0.1"}."""
        blas, cub = self.library.blas_version(), self.library.cub_version()
        return {
            "cublas": f"{blas // 10_000}.{blas // 100 % 100}.{blas % 100}",
            "cub": f"{cub // 100_000}.{cub // 100 % 1000}.{cub % 100}",
        }

    def matmul(self, a: Array, b: Array, out: Array) -> Callable[[int], None]:
        """By cuBLAS, float32 or float16."""
        (m, k), n = a.shape, b.shape[1]
        fixed = DATA_TYPES[a.dtype.name], m, n, k, *map(address, (a, b, out))
        return lambda stream: self.call("blas_matmul", self.blas, *fixed, stream)

    def transpose(self, x: Array, out: Array) -> Callable[[int], None]:
        """By cuBLAS's geam, of elements of 4, 8 or 16 bytes."""
        fixed = x.dtype.itemsize, *x.shape, address(x), address(out)
        return lambda stream: self.call("blas_transpose", self.blas, *fixed, stream)

    def reduce(self, op: str, x: Array, out: Array) -> Callable[[int], None]:
        """By CUB: "sum" of all of x if `out` is one value, otherwise of its rows; "min" or "max" of all of a
        float32 x."""
        rows, size = out.size, ctypes.c_size_t()
        kind = ord(SUM_TYPES[x.dtype.name]) if op == "sum" else 0
        fixed = ord(op[1]), kind, address(x), address(out), rows, x.size // rows
        self.call("cub_reduce", *fixed, None, size, None)
        memory = empty(max(size.value, 1), "uint8", device=self.device.name)
        return lambda stream: self.call("cub_reduce", *fixed, address(memory), size, stream)

    def launch_empty(self, as_graph: bool, count: int) -> float:
        """The host's seconds for each of `count` launches of an empty kernel on the default stream, which must be
        idle."""
        seconds = ctypes.c_double()
        self.call("launch_empty", as_graph, count, seconds)
        return seconds.value / count

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library; Error if it fails."""
        if status := getattr(self.library, name)(*arguments):
            raise Error(f"{name} failed with {status}")


@cache
def native(device: Device) -> Native:
    """The library for a device, loaded once."""
    return Native(device)
