"""The time of a block of code, and of the parts of a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smemkit import _core
from smemkit.measure.formats import format_seconds

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Timer", "Timing", "timed", "timer"]


class Timer:
    """The result of `timer`; `host` and `device` are None until the block ends without an exception."""

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

    At its end the block waits for the work that it launched. ``t.host`` is the wall-clock time in seconds, with
    that wait; ``t.device`` the time between two events on the default stream of the default device. The CPU device
    runs synchronously, so there the two differ only by overhead.

    Raises
    ------
    CudaError
        Work that was launched in the block has failed.

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
    """The time of a call in seconds: upload, kernels, download and total.

    Attributes
    ----------
    upload, kernel, download : float
        The time in which a stream was busy with it. They may overlap, because one part of an operand is uploaded
        while a kernel processes the previous one; then their sum exceeds `total`.
    total : float
        The wall-clock time of the call.

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
        """A lower bound of the overlap: by how much their sum exceeds `total`, or 0."""
        return max(0.0, self.upload + self.kernel + self.download - self.total)

    def __str__(self) -> str:
        parts = (f"{name} {format_seconds(getattr(self, name))}" for name in ("upload", "kernel", "download"))
        beside = f", {format_seconds(self.overlap)} overlapped" if self.overlap else ""
        return f"{format_seconds(self.total)}: {', '.join(parts)}{beside}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("upload", "kernel", "download", "total"))
        parts = (self.upload, self.kernel, self.download, self.total)
        cells = "".join(f"<td>{format_seconds(part)}</td>" for part in parts)
        return f"<table><tr>{head}</tr><tr>{cells}</tr></table>"


def timed(fn: Callable[..., Any], *args: Any, **kw: Any) -> tuple[Any, Timing]:
    """Calls ``fn(*args, **kw)`` once, and measures upload, kernels and download of smemkit's calls in it.

    Events on the streams show when a stream was busy. Times may overlap: `Timing.overlap` says by how much.

    Parameters
    ----------
    fn : callable
        An operation, or any function that calls some.

    Returns
    -------
    result : object
        The result of `fn`.
    timing : Timing
        The sums over all of smemkit's calls in `fn`.

    Raises
    ------
    Exception
        Any exception of `fn`.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> total, timing = smemkit.timed(smemkit.sum, np.ones(1000, dtype=np.float32))
    >>> float(total), timing.kernel > 0
    (1000.0, True)
    """
    result, seconds = _core.timed(fn, args, kw)
    return result, Timing(*seconds)
