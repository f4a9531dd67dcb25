"""Timing that says what it measured: which clock, a warm or a cold cache, and every sample."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from smemkit import _core, ops
from smemkit.arrays import Array

if TYPE_CHECKING:
    from typing_extensions import Self

    from smemkit.ceilings import Ceilings

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

_Sample = TypeVar("_Sample")


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
    """Where the time of a call went, in seconds: to the device, in kernels, back from it, and in all.

    Attributes
    ----------
    upload, kernel, download : float
        While this part was under way: its stream was busy with it. Parts of one call may overlap, a piece of an
        operand being on its way while a kernel has the piece before it, and then they add up to more than `total`.
    total : float
        The wall clock's, from the call to its return.

    Examples
    --------
    >>> import smemkit
    >>> smemkit.Timing(upload=0.25, kernel=0.5, download=0.5, total=0.75).overlap
    0.5
    """

    upload: float
    kernel: float
    download: float
    total: float

    @property
    def overlap(self) -> float:
        """Seconds, at least, that parts ran beside one another: what they add up to beyond `total`; else 0."""
        return max(0.0, self.upload + self.kernel + self.download - self.total)

    def __str__(self) -> str:
        parts = (f"{name} {format_seconds(getattr(self, name))}" for name in ("upload", "kernel", "download"))
        beside = f", {format_seconds(self.overlap)} of it side by side" if self.overlap else ""
        return f"{format_seconds(self.total)}: {', '.join(parts)}{beside}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("upload", "kernel", "download", "total"))
        parts = (self.upload, self.kernel, self.download, self.total)
        cells = "".join(f"<td>{format_seconds(part)}</td>" for part in parts)
        return f"<table><tr>{head}</tr><tr>{cells}</tr></table>"


def timed(fn: Callable[..., Any], *args: Any, **kw: Any) -> tuple[Any, Timing]:
    """Calls ``fn(*args, **kw)`` once, and says where the time of smemkit's calls in it went.

    A part's time is that in which its stream was busy with it, by events on that stream. Where the parts overlap
    they are not cut to fit: they may then add up to more than the total, and `Timing.overlap` says by how much.

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
    ceiling : str or None
        The attribute of `Ceilings` that bounds it: "read_bandwidth", "copy_bandwidth", "fp32"; None where it is
        not known, and where the way to the device and back is part of what was measured.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> x = smemkit.asarray(np.ones((256, 256), dtype=np.float32), device="cpu")
    >>> result = smemkit.benchmark(smemkit.transpose, x, repeat=20)
    >>> result.to_dict()["unit"], result.ceiling, 0 < result.ceiling_fraction < 10
    ('GB/s', 'copy_bandwidth', True)
    """

    samples: tuple[float, ...]
    clock: str
    cold: bool | None
    inner: int
    device: str
    bytes: int | None = field(default=None, kw_only=True)
    flops: int | None = field(default=None, kw_only=True)
    ceiling: str | None = field(default=None, kw_only=True)

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
    def quantiles(self) -> tuple[float, float, float, float, float]:
        """The shortest sample, the lower quartile, the median, the upper quartile, the longest; in seconds."""
        return tuple(self.quantile(q) for q in (0, 0.25, 0.5, 0.75, 1))

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
    def ceiling_fraction(self) -> float | None:
        """The rate at the median, as a part of what `smemkit.ceilings` has measured of the device; None where no
        ceiling is known for it. Asked for the first time on a machine, this measures the ceilings.

        What lies in a cache may be read faster than memory, so it can be more than 1.
        """
        from smemkit.ceilings import ceilings  # which measures by this module

        return self.fraction_of(ceilings(self.device)) if self.ceiling else None

    def fraction_of(self, limits: Ceilings) -> float | None:
        """The rate as a part of that one of `limits` which bounds it; None where there is none."""
        if not self.ceiling:
            return None
        limit, work = getattr(limits, self.ceiling), self.flops or self.bytes
        return work / self.median / limit if limit and work else None

    @property
    def _of_ceiling(self) -> str:
        """ ", 87% of the ceiling", or "" where `ceilings` has not been called yet: a repr measures nothing."""
        from smemkit.ceilings import known

        limits = known(self.device) if self.ceiling else None
        fraction = self.fraction_of(limits) if limits else None
        return f", {fraction:.0%} of the ceiling" if fraction else ""

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
        return f"{time}{self.rate and ', ' + self.rate}{self._of_ceiling} ({self.conditions})"

    def __repr__(self) -> str:
        return f"<Benchmark {self}>"

    def _repr_html_(self) -> str:
        rows = {
            "median": format_seconds(self.median),
            "quartiles": f"{format_seconds(self.quantile(0.25))}, {format_seconds(self.quantile(0.75))}",
            "best": format_seconds(self.best),
            "rate": self.rate + self._of_ceiling,
            "measured": f"{self.device}, {self.conditions}",
        }
        cells = (f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items() if text)
        return f"<table>{''.join(cells)}</table>"

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON takes it: the attributes, the statistics in seconds, the rate and its unit."""
        unit, value = self.unit_and_value
        return {
            **{name: getattr(self, name) for name in ("device", "clock", "cold", "inner", "bytes", "flops")},
            "median": self.median,
            "quantiles": list(self.quantiles),
            "unit": unit,
            "value": value,
            "ceiling": self.ceiling,
            "ceiling_fraction": self.ceiling_fraction,
            "samples": list(self.samples),
        }

    @property
    def unit_and_value(self) -> tuple[str, float] | tuple[None, None]:
        """("TFLOP/s", rate) where `flops` are known, else ("GB/s", rate) where `bytes` are."""
        if self.flops:
            return "TFLOP/s", self.tflops
        return ("GB/s", self.gbps) if self.bytes else (None, None)

    def plot(self, ax: Any = None) -> Any:
        """Draws the samples in their order, and beside them how they are distributed, median and quartiles marked.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to; a new figure if None. The distribution gets an axes of its own, cut from its right side.

        Returns
        -------
        matplotlib.axes.Axes
            The one with the samples; the other is ``ax.figure.axes[-1]``.

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("plot: matplotlib is not installed; pip install 'smemkit[plot]'") from error
        if ax is None:
            _, ax = pyplot.subplots(figsize=(8, 3), layout="constrained")
        scale, unit = _unit(self.median)
        times = scale * np.array(self.samples)
        beside = ax.inset_axes([1.02, 0, 0.25, 1], sharey=ax)
        ax.plot(np.arange(1, len(times) + 1), times, ".", markersize=4, color="tab:blue")
        beside.hist(times, bins="auto" if np.ptp(times) else 1, orientation="horizontal", color="tab:blue")
        _, lower, median, upper, _ = (scale * quantile for quantile in self.quantiles)
        for axes in (ax, beside):
            axes.axhspan(lower, upper, zorder=0, color="tab:orange", alpha=0.25, label="quartiles")
            axes.axhline(median, color="tab:orange", label=f"median {format_number(median)} {unit}")
        ax.set(xlabel="sample", ylabel=f"time a call [{unit}]", title=str(self))
        ax.legend(loc="upper right", fontsize="small")
        beside.set_xlabel("samples")
        beside.tick_params(labelleft=False)
        return ax


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
        if device != "cpu":
            work["ceiling"] = None  # the way there and back takes its time
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
    **work: Any,
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
        `bytes`, `flops` and `ceiling` of a call, as in `Benchmark`, where they are known.

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
    **work: Any,
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


def collect(sample: Callable[[], _Sample], repeat: int | None, max_seconds: float) -> tuple[_Sample, ...]:
    """Samples, until there are `repeat` (None: 1000) or `max_seconds` are over; at least one (None: three)."""
    if repeat is not None and repeat < 1:
        raise ValueError(f"repeat: expected at least 1, got {repeat}")
    least, most = (3, 1000) if repeat is None else (1, repeat)
    end = time.perf_counter() + max_seconds
    samples = [sample() for _ in range(least)]
    while len(samples) < most and time.perf_counter() < end:
        samples.append(sample())
    return tuple(samples)


def operation_work(op: str, x: Any, x2: Any = None, *_: Any) -> dict[str, Any]:
    """What an operation has to do at least, {"flops": …} of a matmul, {"bytes": …} of all others, and what bounds
    it: {"ceiling": …}, an attribute of `Ceilings`."""
    x = x if hasattr(x, "nbytes") else np.asarray(x)
    if op == "matmul":
        a, b = np.shape(x), np.shape(x2)
        matrices = math.prod(np.broadcast_shapes(a[:-2], b[:-2]))
        flops = 2 * matrices * math.prod(a[-2:]) * (b[-1] if len(b) > 1 else 1)
        return {"flops": flops, "ceiling": _RATES.get(np.dtype(x.dtype).name)}
    if op in ("add_one", "convert", "reverse", "transpose"):
        return {"bytes": 2 * x.nbytes, "ceiling": "copy_bandwidth"}
    return {"bytes": x.nbytes, "ceiling": "read_bandwidth"}


_RATES = {"float32": "fp32", "float16": "f16", "bfloat16": "bf16"}


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
