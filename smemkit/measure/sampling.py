"""Samples of a time: how many, and the device's clock, which a captured CUDA graph and two events make."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from smemkit import _core

__all__ = ["Sampler", "calls_per_sample", "collect", "collect_alternately", "device_sampler", "device_samples"]

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
    inner = 1 if cold else calls_per_sample(min(graph.replay(), graph.replay()))
    if inner > 1:
        graph = _core.Graph(call, device, inner, 0, 0)
    return Sampler(graph.replay, inner)


def calls_per_sample(seconds: float) -> int:
    """How many calls of so many seconds a sample with warm caches has: a millisecond of them, but 20 at most."""
    return max(1, min(20, int(1e-3 / max(seconds, 1e-6))))


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
) -> dict[str, list[_Sample]]:
    """Samples of several things, one of each in a round, in an order that changes at random: what slows a device
    or its host for a while, such as a limit of its power, slows all of them, and none comes always after the
    hottest. They share `max_seconds`, but there are at least three rounds."""
    shuffle, names = random.Random(0).shuffle, list(samples)
    results: dict[str, list[_Sample]] = {name: [] for name in names}

    def sample_all() -> None:
        shuffle(names)
        for name in names:
            results[name].append(samples[name]())

    collect(sample_all, None, max_seconds)
    return results


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
