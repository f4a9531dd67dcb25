"""Timing that says what it measured: which clock, a warm or a cold cache, and every sample."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from smemkit import _core, ops
from smemkit.arrays import Array

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Benchmark",
    "Timer",
    "Timing",
    "benchmark",
    "collect",
    "format_number",
    "format_seconds",
    "measure",
    "measure_host",
    "timed",
    "timer",
]


class Timer:
    """What `timer` returns; `host` and `device` are None until the block has ended without an exception."""

    host: float | None = None
    device: float | None = None

    def __enter__(self) -> Self:
        self._device = _core.default_device()
        self._begin = _core.mark(self._device)
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        if kind is None:
            self.device = _core.mark(self._device).seconds_since(self._begin)
            self.host = time.perf_counter() - self._start

    def __repr__(self) -> str:
        if self.host is None:
            return "<Timer, not ended>"
        return f"<Timer host {format_seconds(self.host)}, device {format_seconds(self.device)}>"


def timer() -> Timer:
    """Times a block of code: ``with timer() as t: …``.

    The block's end waits for what the block launched. Then ``t.host`` is the wall clock's seconds from start to
    end, the wait included, and ``t.device`` the seconds between two events on the default stream of the default
    device. The CPU device works when it is called and not later, so there the two are one but for the overhead.

    Raises
    ------
    CudaError
        Something that was launched in the block has failed.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> with smemkit.timer() as t:
    ...     _ = smemkit.sum(np.ones(1000, dtype=np.float32))
    >>> t.host > 0
    True
    """
    return Timer()


@dataclass(frozen=True)
class Timing:
    """Where the time of a call went, in seconds: to the device, in kernels, back from it, and in all."""

    upload: float
    kernel: float
    download: float
    total: float

    def __str__(self) -> str:
        parts = (f"{name} {format_seconds(getattr(self, name))}" for name in ("upload", "kernel", "download"))
        return f"{format_seconds(self.total)}: {', '.join(parts)}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("upload", "kernel", "download", "total"))
        parts = (self.upload, self.kernel, self.download, self.total)
        cells = "".join(f"<td>{format_seconds(part)}</td>" for part in parts)
        return f"<table><tr>{head}</tr><tr>{cells}</tr></table>"


def timed(fn: Callable[..., Any], *args: Any, **kw: Any) -> tuple[Any, Timing]:
    """Calls ``fn(*args, **kw)`` once, and says where the time of smemkit's calls in it went.

    Parameters
    ----------
    fn : callable
        An operation, or any function that calls some.

    Returns
    -------
    result : object
        What `fn` returned.
    timing : Timing
        In seconds; sums over all of smemkit's calls in `fn`.

    Raises
    ------
    Exception
        What `fn` raises.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> total, timing = smemkit.timed(smemkit.sum, np.ones(1000, dtype=np.float32))
    >>> float(total), timing.kernel > 0
    (1000.0, True)
    """
    result, seconds = _core.timed(fn, args, kw)
    return result, Timing(*seconds)


@dataclass(frozen=True, repr=False)
class Benchmark:
    """What `benchmark` measured.

    Attributes
    ----------
    samples : tuple of float
        Seconds a call, all of them, in the order in which they were measured.
    clock : str
        "device": events around a captured CUDA graph. "host": the wall clock, with the device drained.
    cold : bool or None
        Whether L2 was overwritten before each sample; None where that does not apply.
    inner : int
        Calls a sample.
    device : str
        What was measured.
    bytes, flops : int or None
        What a call has to read and write at least, and to compute; None where it is not known.
    """

    samples: tuple[float, ...]
    clock: str
    cold: bool | None
    inner: int
    device: str
    bytes: int | None = field(default=None, kw_only=True)
    flops: int | None = field(default=None, kw_only=True)

    @property
    def median(self) -> float:
        """The median, in seconds."""
        return self.quantile(0.5)

    @property
    def best(self) -> float:
        """The shortest sample, in seconds."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """The interquartile range, in seconds."""
        return self.quantile(0.75) - self.quantile(0.25)

    def quantile(self, q: float) -> float:
        """The quantile `q`, from 0 to 1, in seconds."""
        return float(np.quantile(self.samples, q))

    @property
    def gbps(self) -> float | None:
        """GB/s (10⁹ bytes a second) at the median."""
        return self.bytes / self.median / 1e9 if self.bytes else None

    @property
    def tflops(self) -> float | None:
        """TFLOP/s (10¹² operations a second) at the median."""
        return self.flops / self.median / 1e12 if self.flops else None

    @property
    def rate(self) -> str:
        """The rate with its unit, "3643 GB/s"; "" where it is not known."""
        if self.tflops:
            small = self.tflops < 1
            return f"{format_number(self.tflops * (1000 if small else 1))} {'G' if small else 'T'}FLOP/s"
        return f"{format_number(self.gbps)} GB/s" if self.gbps else ""

    @property
    def conditions(self) -> str:
        """How it was measured: "device clock, cold L2, 200 samples"."""
        words = [f"{self.clock} clock"]
        if self.cold is not None:
            words.append("cold L2" if self.cold else "warm L2")
        words.append(f"{len(self.samples)} samples" + (f" of {self.inner} calls" if self.inner > 1 else ""))
        return ", ".join(words)

    def __str__(self) -> str:
        scale, unit = _unit(self.median)
        time = f"{format_number(self.median * scale)} {unit} ± {format_number(self.spread / 2 * scale)}"
        return f"{time}{self.rate and ', ' + self.rate} ({self.conditions})"

    def __repr__(self) -> str:
        return f"<Benchmark {self}>"

    def _repr_html_(self) -> str:
        rows = {
            "median": format_seconds(self.median),
            "quartiles": f"{format_seconds(self.quantile(0.25))}, {format_seconds(self.quantile(0.75))}",
            "best": format_seconds(self.best),
            "rate": self.rate,
            "measured": f"{self.device}, {self.conditions}",
        }
        cells = (f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items() if text)
        return f"<table>{''.join(cells)}</table>"


def benchmark(
    fn: Callable[..., Any],
    *args: Any,
    warmup: int | None = None,
    repeat: int | None = None,
    max_seconds: float = 1.0,
    flush_l2: bool = True,
    **kw: Any,
) -> Benchmark:
    """Measures how long ``fn(*args, **kw)`` takes.

    An operation of smemkit on an `Array` on a GPU is measured by the device's clock: captured in a CUDA graph,
    between two events, so that neither Python nor the launch counts. Everything else is measured by the host's
    clock, until the device is drained: that is what a caller waits. `Benchmark.clock` says which it was.

    Parameters
    ----------
    fn : callable
        An operation, or any function.
    warmup : int, optional
        Calls before the first sample; 1 if None.
    repeat : int, optional
        Samples at most; 1000 if None.
    max_seconds : float
        No sample is begun later than this many seconds after the first. If `repeat` is None there are three
        samples in any case, else one.
    flush_l2 : bool
        Device clock only: overwrite the L2 cache before each sample. If False, a sample is many calls where one
        is short, and the operands stay in L2 if they fit.

    Returns
    -------
    Benchmark
        Every sample, median, spread and, for smemkit's operations, GB/s or TFLOP/s.

    Raises
    ------
    TypeError
        `stream` is among the keywords, and the device's clock would measure on a stream of its own.
    Exception
        What `fn` raises.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> x = np.ones(1000, dtype=np.float32)
    >>> result = smemkit.benchmark(smemkit.sum, x, device="cpu", repeat=5)
    >>> result.clock, len(result.samples)
    ('host', 5)
    """
    limits = {"warmup": warmup, "repeat": repeat, "max_seconds": max_seconds}
    if fn not in _OPERATIONS:
        return measure_host(lambda: fn(*args, **kw), _core.default_device(), **limits)
    given = inspect.signature(fn).bind(*args, **kw).arguments
    operands = [given[name] for name in ("x", "x1", "x2", "out") if given.get(name) is not None]
    work = operation_work(fn.__name__, *operands)
    on = {x.device if isinstance(x, Array) else None for x in operands}
    device = on.pop() if len(on) == 1 else None
    if device is None or device == "cpu":
        device = device or given.get("device") or _core.default_device()
        return measure_host(lambda: fn(*args, **kw), device, **limits, **work)
    if "stream" in given:
        raise TypeError("stream: expected none, as benchmark() captures on a stream of its own; got one")
    result = fn(*args, **kw)
    if "out" in inspect.signature(fn).parameters:
        kw["out"] = result
    return measure(lambda stream: fn(*args, **kw, stream=stream), device, cold=flush_l2, **limits, **work)


def measure(
    call: Callable[[int], Any],
    device: str,
    *,
    cold: bool,
    warmup: int | None = None,
    repeat: int | None = None,
    max_seconds: float = 1.0,
    **work: int | None,
) -> Benchmark:
    """The device clock of `benchmark`, for anybody's kernels.

    Parameters
    ----------
    call : callable
        ``call(stream)`` enqueues the work on the CUDA stream that it is given as an integer. It is called once to
        warm up, and once or more while that stream is captured: it must neither wait nor allocate for good.
    device : str
        "cuda:0".
    cold : bool
        Overwrite L2 before each sample. Otherwise a sample of something short is up to 20 calls.
    warmup, repeat, max_seconds
        As in `benchmark`.
    work
        `bytes` and `flops` of a call, where they are known.

    Raises
    ------
    CudaError
        The work cannot be captured, or failed.
    """
    _core.synchronize(device)  # the operands are written by now, whichever stream wrote them
    flush = 2 * _core.device_properties(device)["l2_bytes"] if cold else 0
    graph = _core.Graph(call, device, 1, flush, 1 if warmup is None else warmup)
    seconds = min(graph.replay(), graph.replay())
    inner = 1 if cold else max(1, min(20, int(1e-3 / max(seconds, 1e-6))))
    if inner > 1:
        graph = _core.Graph(call, device, inner, 0, 0)
    return Benchmark(collect(graph.replay, repeat, max_seconds), "device", cold, inner, device, **work)


def measure_host(
    call: Callable[[], Any],
    device: str,
    *,
    warmup: int | None = None,
    repeat: int | None = None,
    max_seconds: float = 1.0,
    **work: int | None,
) -> Benchmark:
    """The host clock of `benchmark`: the wall clock around ``call()``, until `device` is drained."""

    def sample() -> float:
        start = time.perf_counter()
        result = call()
        _core.synchronize(device)
        seconds = time.perf_counter() - start
        del result  # only now: giving memory back is not part of the call
        return seconds

    for _ in range(1 if warmup is None else warmup):
        sample()
    return Benchmark(collect(sample, repeat, max_seconds), "host", None, 1, device, **work)


def collect(sample: Callable[[], float], repeat: int | None, max_seconds: float) -> tuple[float, ...]:
    """Samples, until there are `repeat` (None: 1000) or `max_seconds` are over; at least one (None: three)."""
    if repeat is not None and repeat < 1:
        raise ValueError(f"repeat: expected at least 1, got {repeat}")
    least, most = (3, 1000) if repeat is None else (1, repeat)
    end = time.perf_counter() + max_seconds
    samples = [sample() for _ in range(least)]
    while len(samples) < most and time.perf_counter() < end:
        samples.append(sample())
    return tuple(samples)


def operation_work(op: str, x: Any, x2: Any = None, *_: Any) -> dict[str, int]:
    """What an operation has to do at least: {"flops": …} of a matmul, {"bytes": …} of all others."""
    if op == "matmul":
        (m, k), n = np.shape(x), np.shape(x2)[-1]
        return {"flops": 2 * m * n * k}
    nbytes = x.nbytes if hasattr(x, "nbytes") else np.asarray(x).nbytes
    return {"bytes": nbytes if op in ("reduce", "sum", "min", "max") else 2 * nbytes}


def format_seconds(seconds: float) -> str:
    """`seconds` to three digits: "18.4 µs"."""
    scale, unit = _unit(seconds)
    return f"{format_number(seconds * scale)} {unit}"


_OPERATIONS = {getattr(ops, name) for name in ops.__all__}


def _unit(seconds: float) -> tuple[float, str]:
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 1:
            return scale, unit
    return 1e9, "ns"


def format_number(value: float) -> str:
    """`value` to three digits, at most three of them behind the point: "3,986", "18.4", "0.002"."""
    places = 0 if value <= 0 else max(0, 2 - math.floor(math.log10(value)))
    return f"{value:,.{min(places, 3)}f}"
