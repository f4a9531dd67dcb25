"""The devices of this machine: their properties, the default one, their memory, the executor's threads."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from smemkit import _core

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Device",
    "MemoryStats",
    "devices",
    "empty_cache",
    "format_bytes",
    "get_num_threads",
    "is_available",
    "launches",
    "memory_stats",
    "set_num_threads",
    "synchronize",
]

_entered = threading.local()  # .previous: the defaults that this thread's `with Device(...)` blocks replaced


class Device(str):
    """A device: a string, its name, with the device's properties. Every ``device=`` takes it.

    As a context manager it makes itself this thread's default device.

    Parameters
    ----------
    name : str, optional
        "cuda:0" or "cuda", "cuda:1", …, "cpu"; the default device if None: `SMEMKIT_DEVICE`, else the first CUDA
        device that works, else "cpu".

    Raises
    ------
    ValueError
        `name` is not a device's name.
    NoDeviceError
        This machine has no such device; the message says why.

    Examples
    --------
    >>> import smemkit
    >>> with smemkit.Device("cpu"):
    ...     smemkit.zeros(3).device
    'cpu'
    """

    _properties: dict

    def __new__(cls, name: str | None = None) -> Self:
        name = _core.default_device() if name is None else name
        properties = _core.device_properties(name)
        self = super().__new__(cls, "cuda:0" if name == "cuda" else name)
        self._properties = properties
        return self

    def __enter__(self) -> Self:
        if not hasattr(_entered, "previous"):
            _entered.previous = []
        _entered.previous.append(_core.set_default_device(self.name))
        return self

    def __exit__(self, *exception: object) -> None:
        _core.set_default_device(_entered.previous.pop())

    @property
    def name(self) -> str:
        """The name as a plain string: "cuda:0", "cpu"."""
        return str(self)

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.startswith("cuda")

    @property
    def description(self) -> str:
        """The name of the hardware: "NVIDIA H200", "AMD EPYC, 2 threads"."""
        return self._properties["description"]

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability, (9, 0); None on the CPU."""
        pair = self._properties["capability_major"], self._properties["capability_minor"]
        return pair if self.is_cuda else None

    @property
    def multiprocessors(self) -> int:
        """Streaming multiprocessors; on the CPU the cores that the executor uses."""
        return self._properties["multiprocessors"]

    @property
    def warp_size(self) -> int:
        """Threads per warp."""
        return self._properties["warp_size"]

    @property
    def max_threads_per_block(self) -> int:
        """The largest block, in threads."""
        return self._properties["max_threads_per_block"]

    @property
    def max_threads_per_multiprocessor(self) -> int:
        """The most threads that are resident on a multiprocessor."""
        return self._properties["max_threads_per_multiprocessor"]

    @property
    def shared_per_block(self) -> int:
        """Bytes of shared memory that a block may have without opting in."""
        return self._properties["shared_per_block"]

    @property
    def shared_per_block_optin(self) -> int:
        """Bytes of shared memory that a block may have if its kernel opts in."""
        return self._properties["shared_per_block_optin"]

    @property
    def shared_per_multiprocessor(self) -> int:
        """Bytes of shared memory of one multiprocessor."""
        return self._properties["shared_per_multiprocessor"]

    @property
    def registers_per_multiprocessor(self) -> int:
        """32-bit registers of one multiprocessor."""
        return self._properties["registers_per_multiprocessor"]

    @property
    def l2_bytes(self) -> int:
        """Bytes of the L2 cache."""
        return self._properties["l2_bytes"]

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory."""
        return self._properties["memory_bytes"]

    @property
    def free_bytes(self) -> int:
        """Bytes of memory that are free at the moment."""
        return _core.device_properties(self.name)["free_bytes"]

    @property
    def memory_bandwidth(self) -> float:
        """Bytes per second as on the data sheet, from the bus's clock and width; 0 if they are not known."""
        return 2 * self.memory_clock * self._properties["memory_bus_bits"] / 8

    @property
    def memory_clock(self) -> float:
        """The memory clock in Hz; 0 if it is not known."""
        return 1e3 * self._properties["memory_clock_khz"]

    @property
    def clock(self) -> float:
        """The highest clock of the multiprocessors in Hz; 0 if it is not known."""
        return 1e3 * self._properties["clock_khz"]

    @property
    def driver_version(self) -> str | None:
        """The newest CUDA that the driver supports, "13.0"; None on the CPU."""
        return _version(self._properties["driver_version"])

    @property
    def runtime_version(self) -> str | None:
        """The CUDA runtime that is built in, "13.0"; None on the CPU."""
        return _version(self._properties["runtime_version"])

    def limits(self) -> dict[str, str]:
        """The properties as text, by label; without those that the device does not have."""
        rows = {
            "compute capability": self.capability and "{}.{}".format(*self.capability),
            "multiprocessors" if self.is_cuda else "cores": self.multiprocessors,
            "max threads per block": self.max_threads_per_block,
            "threads per multiprocessor": self.max_threads_per_multiprocessor,
            "threads per warp": self.warp_size,
            "shared memory per block": format_bytes(self.shared_per_block),
            "shared memory per block, opt-in": format_bytes(self.shared_per_block_optin),
            "shared memory per multiprocessor": format_bytes(self.shared_per_multiprocessor),
            "registers per multiprocessor": self.registers_per_multiprocessor,
            "L2 cache": format_bytes(self.l2_bytes),
            "memory": format_bytes(self.memory_bytes),
            "free memory": format_bytes(self.free_bytes),
            "memory bandwidth, data sheet": self.memory_bandwidth and f"{self.memory_bandwidth / 1e9:.0f} GB/s",
            "max clock": self.clock and f"{self.clock / 1e6:.0f} MHz",
            "CUDA version of the driver": self.driver_version,
            "CUDA runtime": self.runtime_version,
        }
        return {label: str(value) for label, value in rows.items() if value}

    def __repr__(self) -> str:
        if not self.capability:
            return f"<Device {self.name}: {self.description}>"
        major, minor = self.capability
        chip = f"compute capability {major}.{minor}, {self.multiprocessors} multiprocessors"
        return f"<Device {self.name}: {self.description}, {chip}, {format_bytes(self.memory_bytes)}>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self.limits().items())
        return f"<table><caption>{escape(self.name)}: {escape(self.description)}</caption>{rows}</table>"


def devices() -> list[Device]:
    """The usable devices, GPUs first; "cpu" is always one of them.

    Examples
    --------
    >>> import smemkit
    >>> "cpu" in smemkit.devices()
    True
    """
    return [Device(name) for name in _core.device_names()]


def is_available() -> bool:
    """Whether there is a usable CUDA device. Never raises; `python -m smemkit info` says why there is none.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.is_available() == any(device.is_cuda for device in smemkit.devices())
    True
    """
    return _core.cuda_unavailable() is None


def synchronize(device: str | None = None) -> None:
    """Waits until a device has completed all work.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Raises
    ------
    NoDeviceError
        This machine has no such device.
    CudaError
        Some of the work has failed.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.synchronize("cpu")
    """
    _core.synchronize(device)


@dataclass(frozen=True)
class MemoryStats:
    """The device memory that smemkit has allocated, in bytes; without that of other libraries.

    Attributes
    ----------
    used : int
        By arrays and by calls in progress.
    peak : int
        The maximum of `used` since the process began.
    reserved : int
        `used`, and what is cached for later calls, which `empty_cache` releases.
    """

    used: int
    peak: int
    reserved: int

    def __str__(self) -> str:
        used, peak, reserved = (format_bytes(n) or "0 bytes" for n in (self.used, self.peak, self.reserved))
        return f"{used} used, {peak} at most, {reserved} reserved"

    def _repr_html_(self) -> str:
        return f"<code>{escape(str(self))}</code>"


def memory_stats(device: str | None = None) -> MemoryStats:
    """The device memory that smemkit has allocated.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Returns
    -------
    MemoryStats
        `used`, `peak` and `reserved`, in bytes.

    Raises
    ------
    ValueError
        `device` is not a device's name.
    NoDeviceError
        This machine has no such device.

    Examples
    --------
    >>> import smemkit
    >>> before = smemkit.memory_stats("cpu").used
    >>> x = smemkit.zeros((1024, 256), device="cpu")  # float32
    >>> smemkit.memory_stats("cpu").used - before == x.nbytes
    True
    >>> print(smemkit.MemoryStats(used=x.nbytes, peak=3 << 19, reserved=2 << 20))
    1 MiB used, 1.5 MiB at most, 2 MiB reserved
    """
    return MemoryStats(*_core.memory_stats(device))


def empty_cache(device: str | None = None) -> None:
    """Releases the device memory that smemkit has cached for later calls, so that other libraries can use it, and
    the pinned host memory that NumPy results no longer have.

    Waits until the device has completed all work. The memory of arrays is not affected. The CPU device caches
    nothing.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Raises
    ------
    ValueError
        `device` is not a device's name.
    NoDeviceError
        This machine has no such device.
    CudaError
        Some of the work has failed.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.empty_cache("cpu")
    """
    _core.empty_cache(device)


def set_num_threads(n: int) -> None:
    """Sets the number of CPU threads that the executor uses, for the whole process.

    Parameters
    ----------
    n : int
        From 1 to 256.

    Raises
    ------
    ValueError
        `n` is out of range.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.set_num_threads(smemkit.get_num_threads())
    """
    _core.set_num_threads(n)


def get_num_threads() -> int:
    """The number of CPU threads that the executor uses.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def launches() -> int:
    """The number of kernels that this process has launched, on all devices: proof that a result came from one.

    A kernel of the table that takes several CUDA launches counts once.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> before = smemkit.launches()
    >>> _ = smemkit.add_one(np.zeros(8, dtype=np.float32), device="cpu")
    >>> smemkit.launches() - before
    1
    """
    return _core.launches()


def format_bytes(n: int) -> str:
    """`n` bytes as "48 KiB", "139.8 GiB"; "" for 0."""
    if not n:
        return ""
    unit = min((n.bit_length() - 1) // 10, 4)
    return f"{n / 1024**unit:.4g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def _version(number: int) -> str | None:
    return f"{number // 1000}.{number % 1000 // 10}" if number else None
