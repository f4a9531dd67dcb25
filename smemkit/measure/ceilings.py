"""Ceilings: the highest rates that this machine reaches, with which measured rates are compared."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from smemkit import _core
from smemkit.arrays import Array, asarray, empty
from smemkit.devices import Device
from smemkit.measure.formats import format_number
from smemkit.measure.sampling import collect, device_samples
from smemkit.user_kernel.cache import cache_folder
from smemkit.version import version

__all__ = ["Ceilings", "ceilings", "known"]

_LABELS = {  # field → label, divisor and unit
    "copy_bandwidth": ("copy, read and written", 1e9, "GB/s"),
    "read_bandwidth": ("read", 1e9, "GB/s"),
    "fp32": ("FP32", 1e12, "TFLOP/s"),
    "tf32": ("TF32, tensor cores", 1e12, "TFLOP/s"),
    "bf16": ("bfloat16, tensor cores", 1e12, "TFLOP/s"),
    "f16": ("float16, tensor cores", 1e12, "TFLOP/s"),
    "h2d": ("pinned memory to the device", 1e9, "GB/s"),
    "d2h": ("the device to pinned memory", 1e9, "GB/s"),
}
_TENSOR_CORE_DTYPES = {"tf32": "float32", "bf16": "bfloat16", "f16": "float16"}  # of the operands
_SECONDS = 0.1  # per measurement
_BYTES = 1 << 30  # that are read, or copied: far more than L2 holds
_memory: dict[str, Ceilings] = {}  # by key; known to this process


@dataclass(frozen=True)
class Ceilings:
    """A device's ceilings, as measured; None for what it does not have.

    Attributes
    ----------
    device : str
        The device's description: "NVIDIA H200".
    copy_bandwidth, read_bandwidth : float or None
        Bytes per second of the device's memory: of a copy, reads and writes both counted, and of reads alone.
    fp32 : float
        Operations per second in float32; a multiply-add counts as two.
    tf32, bf16, f16 : float or None
        Operations per second of the tensor cores, on TF32, bfloat16 and float16 with float32 accumulation.
    h2d, d2h : float or None
        Bytes per second from pinned host memory to the device, and back.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.Ceilings("a GPU", copy_bandwidth=4e12, read_bandwidth=4.5e12, fp32=6e13).fp32
    60000000000000.0
    """

    device: str
    copy_bandwidth: float
    read_bandwidth: float | None
    fp32: float
    tf32: float | None = None
    bf16: float | None = None
    f16: float | None = None
    h2d: float | None = None
    d2h: float | None = None

    def to_dict(self) -> dict[str, str | float | None]:
        """The attributes, for `json.dumps`."""
        return asdict(self)

    def _rows(self) -> Iterator[tuple[str, str]]:
        for name, (label, scale, unit) in _LABELS.items():
            if rate := getattr(self, name):
                yield label, f"{format_number(rate / scale)} {unit}"

    def __str__(self) -> str:
        width = max(len(label) for label, _ in self._rows())
        return "\n".join([f"{self.device}, measured", *(f"  {k:{width}}  {v:>14}" for k, v in self._rows())])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{label}</th><td>{rate}</td></tr>" for label, rate in self._rows())
        return f"<table><caption>{escape(self.device)}, measured</caption>{rows}</table>"


def ceilings(device: str | None = None, *, refresh: bool = False) -> Ceilings:
    """A device's ceilings: the highest bandwidths and rates that it reaches, measured once per machine.

    On a GPU, kernels of the op "ceiling" measure them, which do nothing but read, copy or multiply random data,
    with the best of several launch shapes; a copy of pinned memory measures PCIe. On the CPU, NumPy copies and
    multiplies.

    The first call takes seconds; the GPU should be idle. The result is cached in the user's cache folder, by
    device, driver and host.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.
    refresh : bool
        Whether to measure again.

    Returns
    -------
    Ceilings
        In bytes and operations per second.

    Raises
    ------
    NoDeviceError
        This machine has no such device.
    OutOfMemoryError
        Too little of the device's memory is free.
    Error
        The cache folder cannot be used; the message says why.

    Examples
    --------
    >>> import smemkit
    >>> limits = smemkit.ceilings("cpu")
    >>> limits.copy_bandwidth > 1e8, limits.tf32
    (True, None)
    """
    device = Device(device)
    key = _key(device)
    if not refresh and (found := _known(key)):
        return found
    measured = _measure_gpu(device) if device.is_cuda else _measure_cpu(device)
    _store(key, measured)
    _memory[key] = measured
    return measured


def known(device: str) -> Ceilings | None:
    """The cached ceilings, of this process or an earlier one; None if they have not been measured."""
    try:
        return _known(_key(Device(device)))
    except (_core.NoDeviceError, ValueError):
        return None


# ---- the cache --------------------------------------------------------------------------------------------------


def _key(device: Device) -> str:
    """What the ceilings depend on."""
    parts = [device.description, device.memory_bytes, platform.node(), version()]
    if device.is_cuda:
        parts += [device.capability, device.multiprocessors, device.clock, device.driver_version]
    return ", ".join(map(str, parts))


def _path(key: str) -> Path:
    return cache_folder() / f"ceilings-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _known(key: str) -> Ceilings | None:
    if key not in _memory:
        try:
            content = json.loads(_path(key).read_text(encoding="utf-8"))
            if content["key"] != key or set(content["ceilings"]) != {field.name for field in fields(Ceilings)}:
                return None
            _memory[key] = Ceilings(**content["ceilings"])
        except (OSError, ValueError, KeyError, TypeError, _core.Error):
            return None  # no usable cache file
    return _memory[key]


def _store(key: str, measured: Ceilings) -> None:
    path = _path(key)
    text = json.dumps({"key": key, "ceilings": measured.to_dict()}, indent=1) + "\n"
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        new = Path(folder, path.name)
        new.write_text(text, encoding="utf-8")
        new.replace(path)  # atomic: readers see a complete file or none


# ---- measuring --------------------------------------------------------------------------------------------------


def _measure_gpu(device: Device) -> Ceilings:
    memory = _memory_bandwidths(device)
    tensor = {}
    if device.capability >= (8, 0):
        tensor = {name: _tensor_rate(device, dtype) for name, dtype in _TENSOR_CORE_DTYPES.items()}
    nbytes = 256 << 20
    pcie = {
        name: nbytes / _median(partial(_core.pinned_copy_seconds, device.name, nbytes, to_device))
        for name, to_device in (("h2d", True), ("d2h", False))
    }
    return Ceilings(device.description, fp32=_fp32_rate(device), **memory, **tensor, **pcie)


def _memory_bandwidths(device: Device) -> dict[str, float]:
    """The best of many launch shapes of `read` and of `copy`."""
    nbytes = min(_BYTES, device.free_bytes // 4 >> 20 << 20)
    some = np.random.default_rng(0).integers(2**64, size=min(nbytes, 64 << 20) // 8, dtype=np.uint64)
    x = asarray(np.resize(some, nbytes // 8), device=device.name)
    out = empty(x.size, x.dtype, device=device.name)
    rates = {}
    for kernel in ("read", "copy"):
        shapes = []
        for in_flight in (1, 2, 4):
            all_at_once = x.nbytes // (16 * 256 * in_flight)  # blocks for which each thread loads once
            shapes += [(all_at_once, in_flight), *((n * device.multiprocessors, in_flight) for n in (8, 16, 32))]
        rates[f"{kernel}_bandwidth"] = max(_rate(device, kernel, "uint32", x, out, *shape) for shape in shapes)
    return rates


def _fp32_rate(device: Device) -> float:
    x = asarray(np.random.default_rng(0).uniform(-0.9, 0.9, 32).astype(np.float32), device=device.name)
    blocks = 8 * device.multiprocessors
    out = empty(blocks * 256, np.float32, device=device.name)
    return _rate(device, "fma", "float32", x, out, blocks, rounds=2000)


def _tensor_rate(device: Device, dtype: str) -> float:
    """One block per multiprocessor, with the same tiles for all."""
    nbytes = (128 + 256) * 128
    values = np.random.default_rng(0).standard_normal(nbytes // 2, dtype=np.float32)
    if dtype == "float16":
        x = values.astype(np.float16)
    elif dtype == "bfloat16":  # the upper half of a float32
        x = (values.view(np.uint32) >> 16).astype(np.uint16)
    else:
        x = values[: nbytes // 4]
    blocks = device.multiprocessors
    out = empty(blocks * 128 * 256, np.float32, device=device.name)
    return _rate(device, "mma", dtype, asarray(x, device=device.name), out, blocks, rounds=4000)


def _rate(
    device: Device, kernel: str, dtype: str, x: Array, out: Array, blocks: int, in_flight: int = 1, rounds: int = 1
) -> float:
    """The median rate of one launch shape, in bytes or operations per second."""
    work = 0

    def launch(stream: int) -> None:
        nonlocal work
        work = _core.ceiling(kernel, dtype, x, out, blocks, in_flight, rounds, stream)

    samples, _ = device_samples(launch, device.name, cold=False, max_seconds=_SECONDS)
    return work / float(np.median(samples))


def _measure_cpu(device: Device) -> Ceilings:
    x = np.random.default_rng(0).integers(2**64, size=(64 << 20) // 8, dtype=np.uint64)
    out = np.empty_like(x)
    a, b = np.random.default_rng(0).standard_normal((2, 1024, 1024), dtype=np.float32)
    return Ceilings(
        device.description,
        copy_bandwidth=2 * x.nbytes / _median(partial(_seconds, partial(np.copyto, out, x))),
        read_bandwidth=None,
        fp32=2 * 1024**3 / _median(partial(_seconds, partial(np.matmul, a, b))),
    )


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _median(sample: Callable[[], float]) -> float:
    sample()
    return float(np.median(collect(sample, 20, _SECONDS)))
