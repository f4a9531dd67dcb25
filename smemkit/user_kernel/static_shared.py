"""The static shared variables of a kernel, from the library that it was compiled to for the CPU device.

The dialect describes each variable by a constant, a `struct smemkit_shared` of executor.h, whose symbol names the
variable and the function that declares it. The compiler has computed its size.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from smemkit import _core

__all__ = ["shared_variables"]

_PREFIX = "smemkit_shared_"
_DESCRIPTION = struct.Struct("PN")  # the beginning of struct smemkit_shared: its name, and its bytes
_library = ctypes.CDLL(_core.__file__)  # linked with the C++ runtime library


def shared_variables(path: str | Path) -> list[tuple[str, str, int]]:
    """Function, variable and bytes of each static shared variable in a library.

    The function is "" for a variable at file scope; it is the last part of its name, without template arguments.
    """
    from elftools.elf.elffile import ELFFile

    with Path(path).open("rb") as file:
        library = ELFFile(file)
        table = library.get_section_by_name(".symtab")
        found = []
        for symbol in table.iter_symbols() if table else ():
            if _PREFIX not in symbol.name or not symbol["st_size"]:
                continue
            section = library.get_section(symbol["st_shndx"])
            at = symbol["st_value"] - section["sh_addr"]
            _, size = _DESCRIPTION.unpack_from(section.data(), at)
            found += [(*names, size) for names in _names(symbol.name)]
        return sorted(found)


def _names(symbol: str) -> Iterator[tuple[str, str]]:
    """The function and the variable of a description's symbol."""
    text = _demangled(symbol)
    scope, found, variable = text.rpartition(_PREFIX)
    if found and re.fullmatch(r"\w+", variable):
        function = re.search(r"(\w+)\s*\(", _without_template_arguments(scope))
        yield function[1] if function else "", variable


def _without_template_arguments(text: str) -> str:
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text


def _demangled(symbol: str) -> str:
    """A symbol as C++ spells it. The function is the C++ ABI's: https://itanium-cxx-abi.github.io/cxx-abi/abi.html"""
    demangle = _library.__cxa_demangle
    demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    found = demangle(symbol.partition(".")[0].encode(), None, None, ctypes.byref(status))
    if not found:
        return symbol
    try:
        return ctypes.string_at(found).decode()
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(found))
