"""Sections of 64-bit ELF files (System V ABI, "Sections"), which the CPU device's libraries are."""

import mmap
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

__all__ = ["read_sections"]

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")  # of the file, without its identification
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, …
_COMPRESSED = struct.Struct("<IIQQ")  # begins a compressed section: type, reserved, size, alignment
_IS_COMPRESSED, _ZLIB = 0x800, 1


def read_sections(path: str | Path, wanted: Collection[str]) -> dict[str, bytes]:
    """The contents of the wanted sections that a file has: name → bytes.

    Raises
    ------
    ValueError
        The file is no 64-bit little-endian ELF file, or a section is compressed by other means than zlib.
    """
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: expected a 64-bit little-endian ELF file")
        return {name: _content(content, section) for name, section in _sections(content) if name in wanted}


def _sections(content: mmap.mmap) -> Iterator[tuple[str, tuple[int, ...]]]:
    fields = _HEADER.unpack_from(content)
    table, size, count, names = fields[5], fields[10], fields[11], fields[12]
    rows = [_SECTION.unpack_from(content, table + number * size) for number in range(count)]
    texts = _content(content, rows[names])
    for row in rows:
        yield texts[row[0] : texts.index(b"\0", row[0])].decode(), row


def _content(content: mmap.mmap, section: tuple[int, ...]) -> bytes:
    flags, offset, size = section[2], section[4], section[5]
    data = content[offset : offset + size]
    if not flags & _IS_COMPRESSED:
        return data
    kind = _COMPRESSED.unpack_from(data)[0]
    if kind != _ZLIB:
        raise ValueError(f"a section is compressed by {kind}, which is not zlib")
    return zlib.decompress(data[_COMPRESSED.size :])
