"""Samples of a time: how many, and the device's clock, which a captured CUDA graph and two events make."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from smemkit import _core

__all__ = ["collect", "device_samples"]

_Sample = TypeVar("_Sample")


def device_samples(
    call: Callable[[int], Any],
    device: str,
    *,
    cold: bool,
    warmup: int | None = None,
    repeat: int | None = None,
    max_seconds: float = 1.0,
) -> tuple[tuple[float, ...], int]:
    """Seconds per call of work on a CUDA stream, by the device's clock: every sample, and the calls per sample.

    The parameters are those of `smemkit.measure.benchmarks.measure`.
    """
    _core.synchronize(device)  # the operands may be pending on any stream
    flush = 2 * _core.device_properties(device)["l2_bytes"] if cold else 0
    graph = _core.Graph(call, device, 1, flush, 1 if warmup is None else warmup)
    seconds = min(graph.replay(), graph.replay())
    inner = 1 if cold else max(1, min(20, int(1e-3 / max(seconds, 1e-6))))
    if inner > 1:
        graph = _core.Graph(call, device, inner, 0, 0)
    return collect(graph.replay, repeat, max_seconds), inner


def collect(sample: Callable[[], _Sample], repeat: int | None, max_seconds: float) -> tuple[_Sample, ...]:
    """Takes `repeat` samples (None: 1000), or fewer in `max_seconds`, but at least one (None: three)."""
    if repeat is not None and repeat < 1:
        raise ValueError(f"repeat: expected at least 1, got {repeat}")
    least, most = (3, 1000) if repeat is None else (1, repeat)
    end = time.perf_counter() + max_seconds
    samples = [sample() for _ in range(least)]
    while len(samples) < most and time.perf_counter() < end:
        samples.append(sample())
    return tuple(samples)
