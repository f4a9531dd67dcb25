"""Texture objects of the CPU device: struct texture of csrc/executor/include/smemkit/texture.h."""

from __future__ import annotations

import ctypes

from smemkit.user_kernel.texture import ADDRESS_MODES, FILTERS, Texture

__all__ = ["cpu_texture"]

_KINDS = {"i": 0, "u": 1, "f": 2}  # of cudaChannelFormatKind


class _Format(ctypes.Structure):
    _fields_ = (("bits", ctypes.c_int * 4), ("kind", ctypes.c_int))


class _Description(ctypes.Structure):
    """cudaTextureDesc"""

    _fields_ = (
        ("address", ctypes.c_int * 3),
        ("filter", ctypes.c_int),
        ("read", ctypes.c_int),
        ("srgb", ctypes.c_int),
        ("border", ctypes.c_float * 4),
        ("normalized", ctypes.c_int),
        ("anisotropy_and_mipmaps", ctypes.c_int * 7),
    )


class _Texture(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("format", _Format),
        ("size", ctypes.c_long * 3),
        ("row", ctypes.c_size_t),
        ("slice", ctypes.c_size_t),
        ("how", _Description),
        ("cubemap", ctypes.c_bool),
        ("linear", ctypes.c_bool),
    )


def cpu_texture(texture: Texture, address: int) -> tuple[_Texture, ctypes.Array]:
    """The texture object of an array at an address, and the memory that it needs as well: a copy of the texels,
    as on a GPU, unless it is linear memory."""
    size = 0 if texture.linear_memory else texture.array.nbytes
    texels = ctypes.create_string_buffer(size)
    ctypes.memmove(texels, address, size)
    return _describe(texture, address if texture.linear_memory else ctypes.addressof(texels)), texels


def _describe(texture: Texture, address: int) -> _Texture:
    dtype, channels = texture.array.dtype, texture.channels
    extent = (*texture.extent, 1, 1)[:3]
    bits = [8 * dtype.itemsize] * channels + [0] * (4 - channels)
    row = dtype.itemsize * channels * extent[0]
    modes = [ADDRESS_MODES[mode] for mode in texture.address[::-1]]
    how = _Description(
        (ctypes.c_int * 3)(*modes),
        FILTERS[texture.filter],
        int(texture.as_float),
        0,
        (ctypes.c_float * 4)(*texture.border),
        int(texture.normalized),
    )
    return _Texture(
        address,
        _Format((ctypes.c_int * 4)(*bits), _KINDS[dtype.kind]),
        (ctypes.c_long * 3)(*extent),
        row,
        row * extent[1],
        how,
        False,
        texture.linear_memory,
    )
