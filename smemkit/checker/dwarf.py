"""Decodes what DWARF 2 to 5 say about addresses: line programs (section 6.2 of the standards), whose rows map them
to lines, and address ranges (6.1.2), which map them to compilation units.

pyelftools makes objects of each row and range, which takes seconds for the package's own library.
"""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["line_rows", "read_signed", "read_unsigned", "unit_ranges"]

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_ADD_CONSTANT_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2  # extended


def read_unsigned(code: bytes, at: int) -> tuple[int, int]:
    """The number in LEB128 at an offset, and the offset after it."""
    value = shift = 0
    while True:
        byte = code[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def read_signed(code: bytes, at: int) -> tuple[int, int]:
    value, end = read_unsigned(code, at)
    bits = 7 * (end - at)
    return value - (value >> (bits - 1) << bits), end


def line_rows(code: bytes, header: Mapping[str, Any]) -> np.ndarray:
    """The rows (address, line, file, end of a sequence) of a line program.

    Parameters
    ----------
    code : bytes
        The program, without its header.
    header : mapping
        The header's fields, named as in the standard.
    """
    base, width, lengths = header["opcode_base"], header["line_range"], header["standard_opcode_lengths"]
    step, least = header["minimum_instruction_length"], header["line_base"]
    advances = [(op - base) // width * step for op in range(256)]
    line_advances = [least + (op - base) % width for op in range(256)]
    rows = []
    at, end, address, line, file = 0, len(code), 0, 1, 1
    while at < end:
        op = code[at]
        at += 1
        if op >= base:
            address += advances[op]
            line += line_advances[op]
            rows.append((address, line, file, 0))
        elif op == 0:
            size, at = read_unsigned(code, at)
            if code[at] == _END_SEQUENCE:
                rows.append((address, line, file, 1))
                address, line, file = 0, 1, 1
            elif code[at] == _SET_ADDRESS:
                address = int.from_bytes(code[at + 1 : at + size], "little")
            at += size
        elif op == _COPY:
            rows.append((address, line, file, 0))
        elif op == _ADVANCE_PC:
            value, at = read_unsigned(code, at)
            address += value * step
        elif op == _ADVANCE_LINE:
            value, at = read_signed(code, at)
            line += value
        elif op == _SET_FILE:
            file, at = read_unsigned(code, at)
        elif op == _ADD_CONSTANT_PC:
            address += advances[255]
        elif op == _FIXED_ADVANCE_PC:
            address += int.from_bytes(code[at : at + 2], "little")
            at += 2
        else:  # does not change what a row holds
            for _ in range(lengths[op - 1]):
                _, at = read_unsigned(code, at)
    return np.array(rows, np.int64).reshape(-1, 4)


def unit_ranges(section: bytes) -> np.ndarray:
    """The sorted ranges (first address, end, offset of the compilation unit) of .debug_aranges, for 64-bit
    addresses."""
    sets, at = [np.empty((0, 3), np.int64)], 0
    while at < len(section):
        length, _version, offset = struct.unpack_from("<IHI", section, at)
        end = at + 4 + length
        first = at + 16  # the header, padded to a multiple of a range
        pairs = np.frombuffer(section, np.int64, (end - first) // 8, first).reshape(-1, 2)
        pairs = pairs[pairs[:, 1] > 0]  # without the pair of zeros at the end
        sets.append(np.column_stack([pairs[:, 0], pairs.sum(1), np.full(len(pairs), offset)]))
        at = end
    ranges = np.concatenate(sets)
    return ranges[np.argsort(ranges[:, 0], kind="stable")]
