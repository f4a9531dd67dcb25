"""Benchmarks: the time of a call, with every sample and the conditions: the clock, warm or cold caches."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from smemkit import _core, ops
from smemkit.arrays import Array
from smemkit.measure.ceilings import Ceilings, ceilings, known
from smemkit.measure.formats import format_number, format_seconds, time_unit
from smemkit.measure.sampling import collect, device_samples

__all__ = ["Benchmark", "benchmark", "measure", "measure_host", "operation_work"]

_OPERATIONS = {getattr(ops, name) for name in ops.__all__}
_RATES = {"float32": "fp32", "float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True, repr=False)
class Benchmark:
    """The result of `benchmark`.

    Attributes
    ----------
    samples : tuple of float
        Seconds per call: every sample, in order.
    clock : str
        "device": events around a captured CUDA graph. "host": the wall clock, until the device is idle.
    cold : bool or None
        Whether L2 was overwritten before each sample; None if that does not apply.
    inner : int
        Calls per sample.
    device : str
        The device's name.
    bytes, flops : int or None
        The fewest bytes that a call must read and write, and its operations; None if not known.
    ceiling : str or None
        The attribute of `Ceilings` that bounds it: "read_bandwidth", "copy_bandwidth", "fp32"; None if it is not
        known, or if transfers are part of the time.

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
        """GB/s (10⁹ bytes per second) at the median."""
        return self.bytes / self.median / 1e9 if self.bytes else None

    @property
    def tflops(self) -> float | None:
        """TFLOP/s (10¹² operations per second) at the median."""
        return self.flops / self.median / 1e12 if self.flops else None

    @property
    def rate(self) -> str:
        """The rate with its unit, "3643 GB/s"; "" if it is not known."""
        if self.tflops:
            small = self.tflops < 1
            return f"{format_number(self.tflops * (1000 if small else 1))} {'G' if small else 'T'}FLOP/s"
        return f"{format_number(self.gbps)} GB/s" if self.gbps else ""

    @property
    def ceiling_fraction(self) -> float | None:
        """The rate at the median divided by the device's ceiling; None if it has none. The first use on a machine
        measures the ceilings.

        It can exceed 1, because caches are faster than memory.
        """
        return self.fraction_of(ceilings(self.device)) if self.ceiling else None

    def fraction_of(self, limits: Ceilings) -> float | None:
        """The rate divided by the ceiling that bounds it; None if there is none."""
        if not self.ceiling:
            return None
        limit, work = getattr(limits, self.ceiling), self.flops or self.bytes
        return work / self.median / limit if limit and work else None

    @property
    def _of_ceiling(self) -> str:
        """ ", 87% of the ceiling"; "" if the ceilings are not known yet, because a repr measures nothing."""
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
        scale, unit = time_unit(self.median)
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
        """Everything, for `json.dumps`: the attributes, the statistics in seconds, the rate and its unit."""
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
        """("TFLOP/s", rate) if `flops` are known, otherwise ("GB/s", rate) if `bytes` are."""
        if self.flops:
            return "TFLOP/s", self.tflops
        return ("GB/s", self.gbps) if self.bytes else (None, None)

    def plot(self, ax: Any = None) -> Any:
        """Plots the samples in order, and their distribution, with median and quartiles.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on; a new figure if None. The distribution gets inset axes at their right.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the samples; the distribution is on ``ax.figure.axes[-1]``.

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
        scale, unit = time_unit(self.median)
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

    An operation of smemkit on GPU Arrays is measured by the device's clock: captured in a CUDA graph, between two
    events, without the time of Python and the launch. Everything else is measured by the host's clock until the
    device is idle: the time that a caller waits. `Benchmark.clock` says which.

    Parameters
    ----------
    fn : callable
        An operation, or any function.
    warmup : int, optional
        Calls before the first sample; 1 if None.
    repeat : int, optional
        The most samples; 1000 if None.
    max_seconds : float
        No sample starts later than this after the first. If `repeat` is None there are at least three samples,
        otherwise at least one.
    flush_l2 : bool
        Device clock only: overwrite the L2 cache before each sample. If False, a sample of a short operation is
        many calls, and operands that fit stay in L2.

    Returns
    -------
    Benchmark
        All samples, median, spread and, for smemkit's operations, GB/s or TFLOP/s.

    Raises
    ------
    TypeError
        `stream` is given, but the device clock needs its own stream.
    Exception
        Any exception of `fn`.

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
            work["ceiling"] = None  # transfers dominate
        return measure_host(lambda: fn(*args, **kw), device, **limits, **work)
    if "stream" in given:
        raise TypeError("stream: expected None, because benchmark() captures on its own stream; got one")
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
    """The device clock of `benchmark`, for any work on a CUDA stream.

    Parameters
    ----------
    call : callable
        ``call(stream)`` enqueues the work on a CUDA stream, given as an integer. It is called once to warm up, and
        then while the stream is captured: it must not synchronise, and must free what it allocates.
    device : str
        "cuda:0".
    cold : bool
        Overwrite L2 before each sample. Otherwise a sample of short work is up to 20 calls.
    warmup, repeat, max_seconds
        As in `benchmark`.
    work
        `bytes`, `flops` and `ceiling` of a call, as in `Benchmark`, if they are known.

    Raises
    ------
    CudaError
        The work cannot be captured, or failed.
    """
    samples, inner = device_samples(call, device, cold=cold, warmup=warmup, repeat=repeat, max_seconds=max_seconds)
    return Benchmark(samples, "device", cold, inner, device, **work)


def measure_host(
    call: Callable[[], Any],
    device: str,
    *,
    warmup: int | None = None,
    repeat: int | None = None,
    max_seconds: float = 1.0,
    **work: Any,
) -> Benchmark:
    """The host clock of `benchmark`: the wall-clock time of ``call()``, until `device` is idle."""

    def sample() -> float:
        start = time.perf_counter()
        result = call()
        _core.synchronize(device)
        seconds = time.perf_counter() - start
        del result  # only now: releasing memory is not part of the call
        return seconds

    for _ in range(1 if warmup is None else warmup):
        sample()
    return Benchmark(collect(sample, repeat, max_seconds), "host", None, 1, device, **work)


def operation_work(op: str, x: Any, x2: Any = None, *_: Any) -> dict[str, Any]:
    """An operation's least work, {"flops": …} of a matmul or {"bytes": …} of others, and the attribute of
    `Ceilings` that bounds it, {"ceiling": …}."""
    x = x if hasattr(x, "nbytes") else np.asarray(x)
    if op == "matmul":
        a, b = np.shape(x), np.shape(x2)
        matrices = math.prod(np.broadcast_shapes(a[:-2], b[:-2]))
        flops = 2 * matrices * math.prod(a[-2:]) * (b[-1] if len(b) > 1 else 1)
        return {"flops": flops, "ceiling": _RATES.get(np.dtype(x.dtype).name)}
    if op in ("add_one", "convert", "reverse", "transpose"):
        return {"bytes": 2 * x.nbytes, "ceiling": "copy_bandwidth"}
    return {"bytes": x.nbytes, "ceiling": "read_bandwidth"}
