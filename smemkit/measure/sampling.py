"""Samples of a time: how many, and the device's clock, which a captured CUDA graph and two events make."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from smemkit import _core

__all__ = ["Sampler", "collect", "collect_alternately", "device_sampler", "device_samples"]

_Sample = TypeVar("_Sample")


class Sampler(NamedTuple):
    """Takes samples of a call's time."""

    sample: Callable[[], float]  # seconds per call
    calls: int  # in a sample


def device_sampler(call: Callable[[int], Any], device: str, *, cold: bool, warmup: int | None = None) -> Sampler:
    """Samples of work on a CUDA stream, by the device's clock.

    The parameters are those of `smemkit.measure.benchmarks.measure`.
    """
    _core.synchronize(device)  # the operands may be pending on any stream
    flush = 2 * _core.device_properties(device)["l2_bytes"] if cold else 0
    graph = _core.Graph(call, device, 1, flush, 1 if warmup is None else warmup)
    seconds = min(graph.replay(), graph.replay())
    inner = 1 if cold else max(1, min(20, int(1e-3 / max(seconds, 1e-6))))
    if inner > 1:
        graph = _core.Graph(call, device, inner, 0, 0)
    return Sampler(graph.replay, inner)


def device_samples(
    call: Callable[[int], Any],
    device: str,
    *,
    cold: bool,
    warmup: int | None = None,
    repeat: int | None = None,
    max_seconds: float = 1.0,
) -> tuple[tuple[float, ...], int]:
    """Every sample of a `device_sampler`, and the calls per sample."""
    sampler = device_sampler(call, device, cold=cold, warmup=warmup)
    return collect(sampler.sample, repeat, max_seconds), sampler.calls


def collect_alternately(
    samples: Mapping[str, Callable[[], _Sample]], max_seconds: float
) -> dict[str, tuple[_Sample, ...]]:
    """Samples of several things, one of each in a round: what slows a device or its host for a while, such as a
    limit of its power, slows all of them. They share `max_seconds`, but there are at least three rounds."""
    rounds = collect(lambda: [sample() for sample in samples.values()], None, max_seconds)
    return dict(zip(samples, zip(*rounds, strict=True), strict=True))


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
