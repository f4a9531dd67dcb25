"""User's kernels on the CPU device: a library that the C++ compiler made, in this process."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from smemkit import _core, dialect
from smemkit._core import CompileError, Error, OutOfMemoryError
from smemkit.compiler import INCLUDE, PRELUDE, compile_library
from smemkit.parameters import FIELDS, Parameter
from smemkit.scanner import DeviceCode, have, marker

__all__ = ["CpuModule"]

_executor = ctypes.CDLL(_core.__file__)
_executor.smemkit_last_message.restype = ctypes.c_char_p
_MEMORY_ALLOCATION, _UNKNOWN = 2, 999  # of cudaError_t

_Fields = ctypes.c_longlong * FIELDS
_Enter = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)
)


class _Variable(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("type", _Fields))


class CpuModule:
    """Compiled device code.

    Parameters
    ----------
    code : DeviceCode
    filename : str
        What messages and debug information call it.
    kernels : sequence of str
        Expressions: "scale", "outer::scale<float>".
    options : tuple of str
    checked : bool
        Whether it is for the checker.
    explain : callable
        Makes an exception of what a compiler says.

    Attributes
    ----------
    variables : dict
        Name → `Parameter`: its type.
    """

    def __init__(
        self,
        code: DeviceCode,
        filename: str,
        kernels: Sequence[str],
        options: tuple[str, ...],
        explain: Callable[[str], CompileError],
        *,
        checked: bool = False,
    ):
        text = _text(code, filename, kernels)
        path = compile_library(text, options, checked=checked, explain=explain)
        try:
            self._library = _load(path, own=not checked)
        except OSError as broken:  # a file in the cache, most likely: next time it is made anew
            path.unlink(missing_ok=True)
            raise CompileError(f"what the compiler made cannot be loaded, try again: {broken}") from None
        self._numbers = {kernel: number for number, kernel in enumerate(kernels)}
        self._addresses: dict[str, int] = {}
        self.variables: dict[str, Parameter] = {}
        for number, variable in enumerate(code.variables):
            try:
                found = _Variable.in_dll(self._library, f"smemkit_variable_{number}")
            except ValueError:
                continue  # an #if hides it
            self._addresses[variable.name] = found.address
            self.variables[variable.name] = Parameter.of(variable.name, variable.name, found.type)
            if checked:
                known = self.variables[variable.name]
                sizes = ctypes.c_size_t(known.total), ctypes.c_size_t(8 if known.pointer else known.bytes)
                address = ctypes.c_void_p(found.address)
                _executor.smemkit_checked_global(
                    variable.name.encode(), address, *sizes, ctypes.c_int(variable.constant)
                )

    def signature(self, kernel: str) -> list[list[int]] | None:
        """The fields of each parameter; None where an #if hides the kernel."""
        try:
            symbol = f"smemkit_signature_{self._numbers[kernel]}"
            count = ctypes.c_longlong.in_dll(self._library, symbol).value
        except ValueError:
            return None
        fields = (ctypes.c_longlong * (1 + FIELDS * count)).in_dll(self._library, symbol)
        return [fields[1 + FIELDS * i : 1 + FIELDS * (i + 1)] for i in range(count)]

    def launch(self, kernel: str, grid, block, shared_bytes: int, arguments, *, closed=False, **_for_gpus) -> None:
        """Runs it and waits. `arguments` is a ctypes array of the addresses of their values; `closed` where the
        host cannot reach their memory meanwhile."""
        enter = _Enter((f"smemkit_enter_{self._numbers[kernel]}", self._library))
        shape = (ctypes.c_uint * 7)(*grid, *block, closed)
        try:
            error = enter(kernel.encode(), shape, shared_bytes, arguments)
        except SystemError as wrapper:  # Ctrl-C was noticed inside, and ctypes cannot know
            raise (wrapper.__cause__ or wrapper) from None
        if error == _UNKNOWN:
            raise KeyboardInterrupt
        if error:
            message = _executor.smemkit_last_message().decode(errors="replace")
            raise (OutOfMemoryError if error == _MEMORY_ALLOCATION else Error)(message)

    def read(self, variable: str) -> bytes:
        """The bytes of a variable."""
        return ctypes.string_at(self._addresses[variable], self.variables[variable].total)

    def write(self, variable: str, content: bytes) -> None:
        """Sets the bytes of a variable."""
        ctypes.memmove(self._addresses[variable], content, len(content))


def _text(code: DeviceCode, filename: str, kernels: Sequence[str]) -> str:
    uses_std = code.mentions("std")

    def keep(include: str) -> bool | str:
        """The dialect's headers; the C++ library's where device code needs it, since they are slow to read."""
        name = include[1:-1]
        return (
            (INCLUDE / name).is_file()
            or name == "cassert"
            or (uses_std and "." not in name and "/" not in name and "if here")
        )

    text = dialect.rewrite(code.assemble(keep), filename, host=False)
    known = {function.name: function for function in code.functions}
    entries = [dialect.shielded('#include "smemkit/entry.h"', text)]
    for number, kernel in enumerate(kernels):
        line = marker(*known[kernel].place) if kernel in known else f'#line 1 "name={kernel}"\n'
        entry = f"{line}SMEMKIT_ENTRY({number}, {kernel})"
        base = kernel.partition("<")[0]
        entries.append(f"#ifdef {have(base)}\n{entry}\n#endif" if base in known else entry)
    for number, variable in enumerate(code.variables):
        entries.append(f"#ifdef {have(variable.name)}\nSMEMKIT_VARIABLE({number}, {variable.name})\n#endif")
    # nvcc needs no header for assert; and one may say `using namespace nvcuda;` and leave it at that
    before = f"{PRELUDE}namespace nvcuda {{}}"
    return "\n".join([before, text, *entries, ""])


_loaded: set[Path] = set()
_loading = threading.Lock()


def _load(path: Path, *, own: bool) -> ctypes.CDLL:
    """The library. Loading one a second time gives the first again, with its variables: `own` ones are copied."""
    with _loading:
        if not own or path not in _loaded:
            library = ctypes.CDLL(str(path))
            _loaded.add(path)
            return library
        with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
            return ctypes.CDLL(shutil.copy(path, folder))
