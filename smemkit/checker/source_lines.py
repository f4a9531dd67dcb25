"""From addresses in a library's code to source lines, and from a launch to its source files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from smemkit._core import Error
from smemkit.checker.dwarf import line_rows, unit_ranges
from smemkit.checker.elf import read_sections
from smemkit.checker.line_programs import SECTIONS, line_program
from smemkit.cuda_source.lexer import mask
from smemkit.table import kernel_table
from smemkit.user_kernel.cache import cache_folder, file_fingerprint

__all__ = ["LaunchSource"]

_LARGE_PROGRAM = 1 << 16  # bytes of a line program
_TYPE_DEFINITION = re.compile(r"(?:template\b.*)?(?:typedef\s+)?(?:struct|class|union)\b")


class _LineTable:
    """The line table of a library: maps an address in its code to a source line."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.known: dict[int, tuple[str, int]] = {}
        self.ranges: np.ndarray | None = None  # the compilation units' ranges of addresses, once they are read
        self.units: dict[int, tuple[np.ndarray, list[str]]] = {}  # offset of a compilation unit → rows and files

    def look_up(self, addresses: set[int]) -> dict[int, tuple[str, int]]:
        """(file, line) of each return address: those of the instruction before it."""
        missing = sorted(addresses - self.known.keys())
        if missing:
            sections = read_sections(self.library, SECTIONS)
            if self.ranges is None:
                self.ranges = unit_ranges(sections[".debug_aranges"])
            for offset, inside in self._by_unit(missing).items():
                if offset not in self.units:
                    self.units[offset] = self._read_unit(sections, offset)
                self._resolve(*self.units[offset], inside)
        return {address: self.known.get(address, ("", 0)) for address in addresses}

    def _by_unit(self, addresses: list[int]) -> dict[int, list[int]]:
        """The addresses by the offset of the compilation unit that they belong to, without those of no unit."""
        assert self.ranges is not None
        units: dict[int, list[int]] = {}
        found = np.searchsorted(self.ranges[:, 0], np.array(addresses) - 1, side="right") - 1
        for address, at in zip(addresses, found.tolist(), strict=True):
            if at >= 0 and address - 1 < self.ranges[at, 1]:
                units.setdefault(int(self.ranges[at, 2]), []).append(address)
        return units

    def _read_unit(self, sections: Mapping[str, bytes], offset: int) -> tuple[np.ndarray, list[str]]:
        """The line table of a compilation unit. A large one's is kept in the user's cache: decoding it takes
        seconds."""
        code, header, files = line_program(sections, offset)
        rows = self._cached_rows(code, header, offset) if len(code) > _LARGE_PROGRAM else self._rows(code, header)
        return rows, files

    def _cached_rows(self, code: bytes, header: Mapping[str, Any], offset: int) -> np.ndarray:
        try:
            folder = cache_folder()
        except Error:
            return self._rows(code, header)
        name = hashlib.sha256(f"{file_fingerprint(self.library)} {offset}".encode()).hexdigest()[:32]
        entry = folder / f"{name}.npz"
        with contextlib.suppress(OSError, ValueError, KeyError, BadZipFile), np.load(entry) as kept:
            os.utime(entry)
            return kept["rows"]
        rows = self._rows(code, header)
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            made = Path(new, entry.name)
            np.savez_compressed(made, rows=rows)
            made.replace(entry)
        return rows

    @staticmethod
    def _rows(code: bytes, header: Mapping[str, Any]) -> np.ndarray:
        rows = line_rows(code, header)
        # a function may begin where another ends: the row of the one that begins comes last and counts
        return rows[np.lexsort((-rows[:, 3], rows[:, 0]))]

    def _resolve(self, rows: np.ndarray, files: list[str], addresses: list[int]) -> None:
        at = np.searchsorted(rows[:, 0], np.array(addresses) - 1, side="right") - 1
        for address, (_, line, file, _) in zip(addresses, rows[at].tolist(), strict=True):
            self.known[address] = (files[file], line)


@cache
def _line_table(library: str) -> _LineTable:
    return _LineTable(library)


class LaunchSource:
    """The source files of a launch, by the names that messages use, and its parameters' names."""

    def __init__(
        self,
        launch: Mapping[str, Any],
        kernel: Any,
        sources: Mapping[str, str],
        earlier: Sequence[LaunchSource] = (),
    ) -> None:
        self.name = re.split(r"[<(]", launch["kernel"])[0]
        self._library = launch["library"]
        self.earlier = earlier  # of the launches before that this one may overlap, the last one first
        chains = [site["chain"] for site in launch["sites"]]
        chains += [fault["location"][0] for fault in launch["faults"]]
        self.lines: dict[int, tuple[str, int]] = {}
        self._look_up(chains)
        for before in {fault["launches_before"] for fault in launch["faults"]}:
            faults = [fault for fault in launch["faults"] if fault["launches_before"] == before]
            self.of_launch(before)._look_up([fault["other"][0] for fault in faults])
        self.texts = dict(sources)
        self.kernel = kernel
        self.parameters = kernel.parameters if kernel is not None else ()
        self._file_by_base_name = {Path(file).name: file for file in reversed(self.texts)}
        if kernel is None:
            self.texts |= kernel_table.sources()
            self._file_by_base_name |= _table_files()
            self.parameters = _table_parameters(self.name)

    def _look_up(self, chains: Sequence[Sequence[int]]) -> None:
        self.lines |= _line_table(self._library).look_up({address for chain in chains for address in chain})

    def of_launch(self, before: int) -> LaunchSource:
        """The sources of the launch so many before this one; 0: its own."""
        return self.earlier[before - 1] if before else self

    def location(self, location: tuple[tuple[int, ...], str | None, int]) -> tuple[str, int]:
        """File and line of a location that the executor reported, or of a call stack: its innermost entry in the
        author's files that is not the copying of a struct, which the compiler generates."""
        addresses, file, line = location
        if file or not addresses:
            return self._displayed_file(file or ""), line
        found = self._calls(addresses)
        return next(
            (at for at in found if at[0] in self.texts and not _TYPE_DEFINITION.match(self.text(*at))),
            next((at for at in found if at[0] in self.texts), found[0]),
        )

    def frames(self, location: tuple[tuple[int, ...], str | None, int]) -> tuple[tuple[str, int], ...]:
        """The calls that lead to a location, in the author's files, innermost first."""
        addresses, file, line = location
        own = [(self._displayed_file(file), line)] if file and line else []
        return (
            *own,
            *(
                at
                for at in self._calls(addresses)
                if at[0] in self.texts and not _TYPE_DEFINITION.match(self.text(*at))
            ),
        )

    def _calls(self, addresses: tuple[int, ...]) -> list[tuple[str, int]]:
        return [(self._displayed_file(file), line) for file, line in map(self.lines.__getitem__, addresses)]

    def _displayed_file(self, file: str) -> str:
        if file in self.texts:
            return file
        name = Path(file).name
        return self._file_by_base_name.get(name, name)

    def text(self, file: str, line: int) -> str:
        lines = self.texts.get(file, "").splitlines()
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def parameter(self, index: int) -> str:
        return self.parameters[index] if 0 <= index < len(self.parameters) else ""


@cache
def _table_files() -> dict[str, str]:
    """The files of the library's own kernels, by base name."""
    return {Path(file).name: file for file in kernel_table.sources()}


@cache
def _table_parameters(function: str) -> tuple[str, ...]:
    """The names of the parameters of one of the library's own kernels."""
    found = (_parameter_names(text, function) for text in kernel_table.sources().values())
    return next(filter(None, found), ())


def _parameter_names(text: str, function: str) -> tuple[str, ...]:
    """The names of a __global__ function's parameters, from its text."""
    if function not in text:
        return ()
    masked = mask(text)
    head = re.search(rf"__global__[^;{{}}()]*\b{re.escape(function)}\s*\(([^)]*)\)", masked)
    if not head:
        return ()
    return tuple(re.split(r"\W+", parameter.strip())[-1] for parameter in head[1].split(","))
