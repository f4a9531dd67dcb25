"""How Arrays travel between the processes of a cluster: over UCX their bytes go from GPU to GPU; over other links
an Array is pickled, and goes through host memory.

UCX opens another process's memory only if `cudaMalloc` allocated it (CUDA C++ Programming Guide, "Interprocess
Communication"). smemkit's memory pool cannot be opened so, and RMM's buffers, into which UCX receives, can.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from smemkit import arrays, ops
from smemkit._core import Array, synchronize

__all__: list[str] = []


class Bytes:
    """Memory of a GPU as an array of bytes, which `asarray` reads in place. `owner` keeps it."""

    def __init__(self, owner: Any, address: int, nbytes: int) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def serialize(x: Array) -> tuple[dict[str, Any], list[Any]]:
    """What describes an Array, and a buffer of RMM with its elements in C order. NotImplementedError, upon which
    Dask pickles the Array, if it is not on the process's current GPU, if it has no bytes, and without RMM."""
    if x.device == "cpu" or x.nbytes == 0 or importlib.util.find_spec("rmm") is None:
        raise NotImplementedError("smemkit.Array")
    import rmm

    x = x if x.is_contiguous else x.copy()
    buffer = rmm.DeviceBuffer(size=x.nbytes)
    target = arrays.asarray(Bytes(buffer, buffer.ptr, x.nbytes))
    if target.device != x.device:
        raise NotImplementedError("smemkit.Array that is not on the process's current GPU")
    copy(Bytes(x, x.address, x.nbytes), target)
    return {"shape": x.shape, "dtype": str(x.dtype)}, [buffer]


def deserialize(header: dict[str, Any], frames: list[Any]) -> Array:
    """The Array of a header and a buffer, in smemkit's memory on the buffer's GPU."""
    (buffer,) = frames
    address, _ = buffer.__cuda_array_interface__["data"]
    (nbytes,) = buffer.__cuda_array_interface__["shape"]
    received = arrays.asarray(Bytes(buffer, address, nbytes))
    x = arrays.empty(header["shape"], header["dtype"], device=received.device)
    copy(received, arrays.asarray(Bytes(x, x.address, nbytes)))
    return x


def copy(source: Array | Bytes, target: Array) -> None:
    """Copies bytes, and waits until they are there, because UCX keeps to no stream."""
    synchronize(target.device)  # the source may be pending on any stream
    ops.convert(source, out=target)
    synchronize(target.device)


def register() -> None:
    """Makes `serialize` and `deserialize` known to Dask's distributed, if that is installed."""
    if importlib.util.find_spec("distributed") is None:
        return
    from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

    cuda_serialize.register(Array, serialize)
    cuda_deserialize.register(Array, deserialize)
