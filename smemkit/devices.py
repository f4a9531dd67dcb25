"""The devices here: what they are, which is the default, and how many threads the executor has."""

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
    """A device: its name, which goes wherever a ``device=`` is asked for, and what it is.

    As a context manager it makes itself this thread's default device.

    Parameters
    ----------
    name : str, optional
        "cuda:0" or "cuda", "cuda:1", …, "cpu"; the default device if None: `SMEMKIT_DEVICE`, else the first CUDA
        device that works, else "cpu".

    Raises
    ------
    ValueError
        `name` is no device's name.
    NoDeviceError
        The device is not here; the message says why.

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
        """The name alone, as a plain string: "cuda:0", "cpu"."""
        return str(self)

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.startswith("cuda")

    @property
    def description(self) -> str:
        """What it says it is: "NVIDIA H200", "AMD EPYC, 2 threads"."""
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
        """Threads a warp."""
        return self._properties["warp_size"]

    @property
    def max_threads_per_block(self) -> int:
        """The largest block, in threads."""
        return self._properties["max_threads_per_block"]

    @property
    def max_threads_per_multiprocessor(self) -> int:
        """Threads that one multiprocessor holds."""
        return self._properties["max_threads_per_multiprocessor"]

    @property
    def shared_per_block(self) -> int:
        """Bytes of shared memory that a block has for the asking."""
        return self._properties["shared_per_block"]

    @property
    def shared_per_block_optin(self) -> int:
        """Bytes of shared memory that a block has where its kernel opts in."""
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
        """Bytes of memory that are free now."""
        return _core.device_properties(self.name)["free_bytes"]

    @property
    def memory_bandwidth(self) -> float:
        """The data sheet's bytes a second, from clock and width of the bus; 0 where they are not known."""
        return 2 * self.memory_clock * self._properties["memory_bus_bits"] / 8

    @property
    def memory_clock(self) -> float:
        """The clock of the memory in Hz; 0 where it is not known."""
        return 1e3 * self._properties["memory_clock_khz"]

    @property
    def clock(self) -> float:
        """The highest clock of the multiprocessors in Hz; 0 where it is not known."""
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
        """All of it in words: what → how much. What the device does not have is left out."""
        rows = {
            "compute capability": self.capability and "{}.{}".format(*self.capability),
            "multiprocessors" if self.is_cuda else "cores": self.multiprocessors,
            "threads a block, at most": self.max_threads_per_block,
            "threads a multiprocessor": self.max_threads_per_multiprocessor,
            "threads a warp": self.warp_size,
            "shared memory a block": format_bytes(self.shared_per_block),
            "shared memory a block, opting in": format_bytes(self.shared_per_block_optin),
            "shared memory a multiprocessor": format_bytes(self.shared_per_multiprocessor),
            "registers a multiprocessor": self.registers_per_multiprocessor,
            "L2 cache": format_bytes(self.l2_bytes),
            "memory": format_bytes(self.memory_bytes),
            "memory free": format_bytes(self.free_bytes),
            "memory bandwidth, data sheet": self.memory_bandwidth and f"{self.memory_bandwidth / 1e9:.0f} GB/s",
            "clock, at most": self.clock and f"{self.clock / 1e6:.0f} MHz",
            "CUDA of the driver": self.driver_version,
            "CUDA built in": self.runtime_version,
        }
        return {what: str(much) for what, much in rows.items() if much}

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
    """The devices that work, GPUs first; "cpu" is always among them.

    Examples
    --------
    >>> import smemkit
    >>> "cpu" in smemkit.devices()
    True
    """
    return [Device(name) for name in _core.device_names()]


def is_available() -> bool:
    """Whether a CUDA device works here. Never raises; `python -m smemkit info` says why not.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.is_available() == any(device.is_cuda for device in smemkit.devices())
    True
    """
    return _core.cuda_unavailable() is None


def synchronize(device: str | None = None) -> None:
    """Waits until all that was asked of a device is done.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Raises
    ------
    NoDeviceError
        The device is not here.
    CudaError
        Something that was asked of it has failed.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.synchronize("cpu")
    """
    _core.synchronize(device)


@dataclass(frozen=True)
class MemoryStats:
    """What smemkit holds of a device's memory, in bytes; other libraries' share is not in it.

    Attributes
    ----------
    used : int
        What arrays have, and calls that are under way.
    peak : int
        The most that `used` has been since the process began.
    reserved : int
        `used`, and what is kept for later calls; `empty_cache` gives that back.
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
    """What smemkit holds of a device's memory.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Returns
    -------
    MemoryStats
        Its `used`, `peak` and `reserved` are bytes.

    Raises
    ------
    ValueError
        `device` is no device's name.
    NoDeviceError
        The device is not here.

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
    """Gives back what smemkit keeps of a device's memory for later calls, so that other libraries can have it.

    What arrays have stays theirs. It waits until the device has done what was asked of it. On the CPU device
    nothing is kept.

    Parameters
    ----------
    device : str, optional
        "cuda:0", "cpu"; the default device if None.

    Raises
    ------
    ValueError
        `device` is no device's name.
    NoDeviceError
        The device is not here.
    CudaError
        Something that was asked of it has failed.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.empty_cache("cpu")
    """
    _core.empty_cache(device)


def set_num_threads(n: int) -> None:
    """Sets how many threads of the CPU the executor uses, for the whole process.

    Parameters
    ----------
    n : int
        From 1 to 256.

    Raises
    ------
    ValueError
        `n` is not in this range.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.set_num_threads(smemkit.get_num_threads())
    """
    _core.set_num_threads(n)


def get_num_threads() -> int:
    """How many threads of the CPU the executor uses.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def launches() -> int:
    """How often this process has launched a rung, on all devices: the proof that a result came from one.

    A rung may take several kernels; it counts once.

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
