"""What a tensor copy puts where in shared memory, and where wgmma looks for the elements of an operand.

It follows NVIDIA's documentation alone, which the docstrings name by section, and shares no code with the CPU
device: what the two make of the same copy or product is to be the same. Everything is in NumPy's order, with the
innermost dimension last, and addresses are bytes from a multiple of 1024.
"""

from typing import NamedTuple

import numpy as np


def swizzled(address, swizzle):
    """Where the byte goes that would be at `address` without a swizzle.

    PTX ISA, "Tensors: Swizzling Modes": in lines of 128 bytes, chunks of 16 bytes are exchanged with others in the
    same line; the tables show chunk c of line y at c xor y % 2 (32 bytes), y % 4 (64) or y % 8 (128). CUDA
    programming guide, "The Swizzle Modes": the line's number is that of its address, wherever a box begins.
    """
    lines = max(swizzle // 16, 1)
    return address ^ (address // 128 % lines * 16)


class Tensor(NamedTuple):
    """What `cuTensorMapEncodeTiled` is told; strides are bytes."""

    shape: tuple
    strides: tuple
    itemsize: int
    box: tuple
    element_strides: tuple
    swizzle: int = 0


def box_elements(tensor, coordinates):
    """Of the elements of a box, in their order in shared memory: which are in the tensor, and their byte offsets.

    PTX ISA, "Tensors: Bounding Box": the coordinates are those of the box's first element. CUDA driver API,
    `cuTensorMapEncodeTiled`: ceil(box / element stride) elements are copied in each dimension. PTX ISA, "Tensors":
    shared memory is linear. "Out of Boundary Access": elements may be outside, in any dimension.
    """
    counts = [-(-size // step) for size, step in zip(tensor.box, tensor.element_strides, strict=True)]
    inside, offsets = np.bool_(True), np.int64(0)
    for axis, places in enumerate(np.indices(counts)):
        index = coordinates[axis] + places * tensor.element_strides[axis]
        inside = inside & (index >= 0) & (index < tensor.shape[axis])
        offsets = offsets + index * tensor.strides[axis]
    return inside.ravel(), offsets.ravel()


def box_addresses(tensor, coordinates, start):
    """`box_elements` byte by byte, with the address of each byte in shared memory for a box at `start`."""
    inside, offsets = box_elements(tensor, coordinates)
    byte = np.arange(tensor.itemsize)
    offsets = (offsets[:, None] + byte).ravel()
    return np.repeat(inside, tensor.itemsize), offsets, swizzled(start + np.arange(offsets.size), tensor.swizzle)


def loaded(shared, memory, tensor, coordinates, start):
    """Shared memory after a box was loaded to `start`, and which of its bytes have no element in the tensor.

    PTX ISA, "Out of Boundary Access": they become 0, or a NaN whose bits are not documented.
    """
    inside, offsets, addresses = box_addresses(tensor, coordinates, start)
    shared, outside = shared.copy(), np.zeros(shared.shape, bool)
    shared[addresses] = 0
    shared[addresses[inside]] = memory[offsets[inside]]
    outside[addresses[~inside]] = True
    return shared, outside


def stored(shared, memory, tensor, coordinates, start):
    """Global memory after the box at `start` was stored; what is outside the tensor is not."""
    inside, offsets, addresses = box_addresses(tensor, coordinates, start)
    memory = memory.copy()
    memory[offsets[inside]] = shared[addresses[inside]]
    return memory


class Operand(NamedTuple):
    """A matrix in shared memory for wgmma; `major` is "k" or "mn", all else is in bytes."""

    itemsize: int
    start: int
    leading: int
    stride: int
    swizzle: int = 0
    major: str = "k"


def operand_address(operand, row, k):
    """The address of element (row, k), where a row is one of m for A, and one of n for B.

    PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout: Strides" and "Canonical Layouts", where
    T elements are 16 bytes. K-major without a swizzle: ((8,m),(T,2k)):((1T,SBO),(1,LBO)); with one of c chunks:
    ((8,m),(T,2k)):((cT,SBO),(1,T)). MN-major without a swizzle: ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO)); with one:
    ((T,c,m),(8,k)):((1,T,LBO),(cT,SBO)).
    """
    width = operand.swizzle or 16  # bytes of a line of eight
    if operand.major == "k":
        chunk, byte = np.divmod(k * operand.itemsize, 16)
        between = 16 if operand.swizzle else operand.leading
        offset = row % 8 * width + row // 8 * operand.stride + chunk * between + byte
    else:
        line, byte = np.divmod(row * operand.itemsize, width)
        across, along = operand.leading, operand.stride
        if not operand.swizzle:
            across, along = along, across
        offset = k % 8 * width + k // 8 * along + line * across + byte
    return swizzled(operand.start + offset, operand.swizzle)


def descriptor(operand):
    """PTX ISA, "Matrix Descriptor Format"; the base offset is 0, so patterns begin at multiples of their size."""
    fields = (operand.start, operand.leading, operand.stride)
    value = sum((field & 0x3FFFF) >> 4 << shift for field, shift in zip(fields, (0, 16, 32), strict=True))
    return value | {0: 0, 128: 1, 64: 2, 32: 3}[operand.swizzle] << 62


def accumulator_place(thread, register):
    """Row and column of an accumulator. PTX ISA, "Register Fragments", accumulator D of wgmma.mma_async."""
    warp, lane = np.divmod(thread, 32)
    row = 16 * warp + lane // 4 + 8 * (register // 2 % 2)
    return row, 8 * (register // 4) + 2 * (lane % 4) + register % 2
