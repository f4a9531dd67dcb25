"""Makes `smemkit.Array` a chunk type of Dask: its size, its hash, how chunks are joined, and how they travel."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask.array.dispatch import concatenate_lookup
from dask.base import normalize_token
from dask.sizeof import sizeof

from smemkit import arrays
from smemkit._core import Array
from smemkit.dask import transport
from smemkit.dask.chunks import task

__all__: list[str] = []


def register() -> None:
    """Registers the type; more than once does no harm."""
    da.register_chunk_type(Array)
    concatenate_lookup.register(Array, concatenate)
    transport.register()
    sizeof.register(Array, lambda x: x.nbytes)
    normalize_token.register(Array, lambda x: ("smemkit.Array", x.device, normalize_token(x.numpy())))


@task
def concatenate(parts: Any, axis: int = 0, **keywords: Any) -> Array:
    """`numpy.concatenate` of Arrays, on the first one's device."""
    parts = [x if isinstance(x, Array) else arrays.asarray(x) for x in parts]
    first, axis = parts[0], axis % parts[0].ndim
    shape = [*first.shape]
    shape[axis] = sum(x.shape[axis] for x in parts)
    dtype = np.result_type(*(x.dtype for x in parts))
    result = arrays.empty(tuple(shape), dtype, device=first.device)
    begin = 0
    for x in parts:
        end = begin + x.shape[axis]
        result[(slice(None),) * axis + (slice(begin, end),)] = x.to(first.device)
        begin = end
    return result
