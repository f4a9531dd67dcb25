"""Finds the line program of a compilation unit in DWARF 2 to 5, and reads its header.

Sections of the standard: 7.5 for units, abbreviations and forms, 6.2.4 for the header. pyelftools makes objects of
all that, and its import alone takes as long as a small kernel's compilation.
"""

import struct
from collections.abc import Mapping
from typing import Any

from smemkit.checker.dwarf import read_signed, read_unsigned

__all__ = ["SECTIONS", "line_program"]

SECTIONS = (".debug_aranges", ".debug_info", ".debug_abbrev", ".debug_line", ".debug_line_str", ".debug_str")
_STMT_LIST = 0x10  # the attribute: where the unit's line program is
_PATH = 1  # the content of an entry of a table of files
_STRING, _INDIRECT, _STRP, _IMPLICIT, _LINE_STRP = 0x08, 0x16, 0x0E, 0x21, 0x1F
_ADDRESS, _REF_ADDR = 0x01, 0x10
_BLOCKS = {0x03: "<H", 0x04: "<I", 0x0A: "<B"}  # form → the type of its length, which comes first
_NUMBERS = {0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23}  # forms in LEB128
_LONG_BLOCKS = {0x09, 0x18}  # forms whose length is in LEB128
_BYTES = {0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, _STRP: 4, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4}
_BYTES |= {0x19: 0, 0x1C: 4, 0x1D: 4, 0x1E: 16, _LINE_STRP: 4, 0x20: 8, _IMPLICIT: 0, 0x24: 8}
_BYTES |= {0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4}


def line_program(sections: Mapping[str, bytes], unit: int) -> tuple[bytes, dict[str, Any], list[str]]:
    """The line program of the compilation unit at an offset in .debug_info: its code, those fields of its header
    that `line_rows` needs, and its files by their numbers.

    Parameters
    ----------
    sections : mapping
        The contents of `SECTIONS`, by name.

    Raises
    ------
    ValueError
        The unit has no line program, or is in a form that is not known.
    """
    return _read_program(sections, _program_offset(sections, unit))


# ---- the compilation unit ----


def _program_offset(sections: Mapping[str, bytes], unit: int) -> int:
    info, abbreviations = sections[".debug_info"], sections[".debug_abbrev"]
    length, version = struct.unpack_from("<IH", info, unit)
    if length >= 0xFFFFFFF0 or not 2 <= version <= 5:
        raise ValueError(f"expected a compilation unit in 32-bit DWARF 2 to 5, got version {version}")
    if version == 5:
        _kind, address_bytes, table = struct.unpack_from("<BBI", info, unit + 6)
    else:
        table, address_bytes = struct.unpack_from("<IB", info, unit + 6)
    code, at = read_unsigned(info, unit + (12 if version == 5 else 11))
    for attribute, form in _attributes(abbreviations, table, code):
        if attribute == _STMT_LIST:
            return struct.unpack_from("<I", info, at)[0]
        at = _end_of_value(info, at, form, address_bytes if version > 2 or form == _ADDRESS else -address_bytes)
    raise ValueError("the compilation unit has no line program")


def _attributes(table: bytes, at: int, wanted: int) -> list[tuple[int, int]]:
    """The attributes and forms of an abbreviation in the table at an offset."""
    while True:
        code, at = read_unsigned(table, at)
        if code == 0:
            raise ValueError(f"expected abbreviation {wanted} in .debug_abbrev")
        _tag, at = read_unsigned(table, at)
        at += 1  # whether it has children
        found, pair = [], (1, 1)
        while pair != (0, 0):
            attribute, at = read_unsigned(table, at)
            form, at = read_unsigned(table, at)
            if form == _IMPLICIT:
                _, at = read_signed(table, at)
            pair = attribute, form
            found.append(pair)
        if code == wanted:
            return found[:-1]


def _end_of_value(data: bytes, at: int, form: int, address_bytes: int) -> int:
    """The offset after a value; `address_bytes` is negative in DWARF 2, whose references are addresses."""
    if form in _BYTES:
        return at + _BYTES[form]
    if form == _ADDRESS:
        return at + address_bytes
    if form == _REF_ADDR:
        return at + (4 if address_bytes > 0 else -address_bytes)
    if form == _STRING:
        return data.index(b"\0", at) + 1
    if form == _INDIRECT:
        form, at = read_unsigned(data, at)
        return _end_of_value(data, at, form, address_bytes)
    if form in _BLOCKS:
        return at + struct.calcsize(_BLOCKS[form]) + struct.unpack_from(_BLOCKS[form], data, at)[0]
    if form in _NUMBERS or form in _LONG_BLOCKS:
        number, at = read_unsigned(data, at)
        return at + (number if form in _LONG_BLOCKS else 0)
    raise ValueError(f"expected a form of DWARF 2 to 5, got {form:#x}")


# ---- the line program ----


def _read_program(sections: Mapping[str, bytes], start: int) -> tuple[bytes, dict[str, Any], list[str]]:
    data = sections[".debug_line"]
    length, version = struct.unpack_from("<IH", data, start)
    if length >= 0xFFFFFFF0 or not 2 <= version <= 5:
        raise ValueError(f"expected a line program in 32-bit DWARF 2 to 5, got version {version}")
    at = start + (8 if version == 5 else 6)
    begin = at + 4 + struct.unpack_from("<I", data, at)[0]
    at += 4
    least_bytes = data[at]
    at += 3 if version >= 4 else 2  # past the operations of an instruction, and what a row is at first
    base, width, first_opcode = struct.unpack_from("<bBB", data, at)
    at += 3
    header = {
        "opcode_base": first_opcode,
        "line_base": base,
        "line_range": width,
        "minimum_instruction_length": least_bytes,
        "standard_opcode_lengths": list(data[at : at + first_opcode - 1]),
    }
    at += first_opcode - 1
    files = _files(sections, at) if version == 5 else _old_files(data, at)
    return data[begin : start + 4 + length], header, files


def _old_files(data: bytes, at: int) -> list[str]:
    """The files of DWARF 2 to 4, which are counted from 1."""
    while data[at]:  # folders
        at = data.index(b"\0", at) + 1
    at, files = at + 1, [""]
    while data[at]:
        end = data.index(b"\0", at)
        files.append(data[at:end].decode())
        at = end + 1
        for _ in ("folder", "time", "bytes"):
            _, at = read_unsigned(data, at)
    return files


def _files(sections: Mapping[str, bytes], at: int) -> list[str]:
    """The files of DWARF 5, whose table comes after that of folders."""
    _, at = _entries(sections, at)
    return _entries(sections, at)[0]


def _entries(sections: Mapping[str, bytes], at: int) -> tuple[list[str], int]:
    """The paths of a table, and the offset after it."""
    data, layout = sections[".debug_line"], []
    count, at = data[at], at + 1
    for _ in range(count):
        content, at = read_unsigned(data, at)
        form, at = read_unsigned(data, at)
        layout.append((content, form))
    paths = []
    count, at = read_unsigned(data, at)
    for _ in range(count):
        path = ""
        for content, form in layout:
            path = _text(sections, at, form) if content == _PATH else path
            at = _end_of_value(data, at, form, 8)
        paths.append(path)
    return paths, at


def _text(sections: Mapping[str, bytes], at: int, form: int) -> str:
    data = sections[".debug_line"]
    if form in (_STRP, _LINE_STRP):
        (at,) = struct.unpack_from("<I", data, at)
        data = sections[".debug_str" if form == _STRP else ".debug_line_str"]
    elif form != _STRING:
        raise ValueError(f"expected a path as a string, got form {form:#x}")
    return data[at : data.index(b"\0", at)].decode()
