"""Random operands for measurements, because a GPU multiplies zeros faster."""

from __future__ import annotations

import numpy as np

__all__ = ["CHUNK", "random"]

CHUNK = 1 << 22  # elements that one thread makes at a time


def random(shape: tuple[int, ...], dtype: str, kind: str = "uniform", seed: int = 0) -> np.ndarray:
    """Random values, made on all cores: "uniform" in [0, 1) or over the range of an integer type; or "normal"."""
    x = np.empty(shape, dtype)
    flat = x.reshape(-1)

    def fill(start: int) -> None:
        rng = np.random.default_rng([seed, start])
        part = flat[start : start + CHUNK]
        if x.dtype.kind == "c":
            parts = part.view(part.real.dtype)
            parts[:] = rng.random(parts.size, dtype=parts.dtype)
        elif x.dtype.kind in "iu":
            info = np.iinfo(dtype)
            part[:] = rng.integers(info.min, info.max, part.size, dtype, endpoint=True)
        elif kind == "normal":
            part[:] = rng.standard_normal(part.size, dtype=np.float64 if dtype == "float64" else np.float32)
        else:
            part[:] = rng.random(part.size, dtype=np.float64 if dtype == "float64" else np.float32)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(0, x.size, CHUNK)))
    return x
