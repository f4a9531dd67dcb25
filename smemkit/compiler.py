"""Kernels for the CPU device: the system's C++ compiler, and a cache of what it made.

The cache is the user's own. What is in it gets loaded as code, so a folder or a file that somebody else owns or
can write to is refused. An entry is written under another name and moved to its place: whoever looks there finds
it whole or not at all.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path

from smemkit import _core, dialect
from smemkit._core import CompileError, Error

__all__ = ["INCLUDE", "PRELUDE", "cache_folder", "compile_error", "compile_library", "find_compiler", "identity"]

INCLUDE = Path(str(files("smemkit._dialect").joinpath("include")))
_LINK = ("-Wl,--no-undefined",) if sys.platform == "linux" else ()
PRELUDE = "#include <cuda_runtime.h>\n#include <assert.h>\n"  # what every kernel for the CPU device begins with
_LIMIT = 256 << 20  # bytes of the cache
_LEFT_BEHIND = 3600  # seconds after which what an interrupted compilation left goes
_INSTALL = (
    "install g++ or clang (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or name one in CXX"
)
_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\n:(]+)(?::(?P<line>\d+)(?::\d+)?:|\((?P<line_too>\d+)\):)\s*"
    r"(?:(?P<kind>(?:fatal |catastrophic )?error|note|warning)(?: #[\w-]+)?:\s)?(?P<text>.*)$"
)
_LED_HERE = re.compile(r"\bat line (?P<line>\d+) of \"?(?P<file>[^\"]+?)\"?$")


# ---- the compiler -----------------------------------------------------------------------------------------------


def find_compiler() -> list[str]:
    """The command of the C++ compiler: $CXX, else c++, g++ or clang++.

    Raises
    ------
    Error
        There is none; the message says what to install.

    Examples
    --------
    >>> len(find_compiler()) > 0
    True
    """
    for command in [shlex.split(os.environ["CXX"])] if os.environ.get("CXX") else [["c++"], ["g++"], ["clang++"]]:
        if path := shutil.which(command[0]):
            return [path, *command[1:]]
    wanted = f"CXX={os.environ['CXX']!r} is not here" if os.environ.get("CXX") else "none is here"
    raise Error(f"a kernel needs a C++ compiler to run on the CPU device, and {wanted}: {_INSTALL}")


@functools.cache
def _accepts(compiler: tuple[str, ...], flag: str) -> bool:
    probe = [*compiler, "-Werror", flag, "-fsyntax-only", "-x", "c++", os.devnull]
    return subprocess.run(probe, capture_output=True).returncode == 0


def _command(compiler: list[str], checked: bool) -> list[str]:
    """How a kernel is compiled, without its file."""

    flags = dialect.compile_flags(partial(_accepts, tuple(compiler)), checked=checked)
    return [*compiler, *flags, "-fPIC", "-fvisibility=hidden", "-w", f"-I{INCLUDE}"]


def identity(path: str | Path) -> str:
    """Changes when the file does."""
    real = Path(path).resolve()
    status = real.stat()
    return f"{real} {status.st_size} {status.st_mtime_ns}"


@functools.cache
def _dialect_identity() -> str:
    headers = [*INCLUDE.rglob("*"), INCLUDE.parent / "executor.h"]
    digest = hashlib.sha256()
    for header in sorted(header for header in headers if header.is_file()):
        digest.update(f"{header.name}\n".encode() + header.read_bytes())
    return digest.hexdigest() + identity(dialect.__file__)


# ---- the cache --------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """The folder of the cache: $SMEMKIT_CACHE, $XDG_CACHE_HOME/smemkit or ~/.cache/smemkit. Made if missing.

    Raises
    ------
    Error
        It cannot be made, or somebody else could write to it.
    """
    try:
        if os.environ.get("SMEMKIT_CACHE"):
            folder = Path(os.environ["SMEMKIT_CACHE"]).absolute()
        elif os.environ.get("XDG_CACHE_HOME"):
            folder = Path(os.environ["XDG_CACHE_HOME"], "smemkit").absolute()
        else:
            folder = Path.home() / ".cache" / "smemkit"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_foreign(folder)
    except (OSError, RuntimeError) as error:
        if isinstance(error, Error):
            raise
        raise Error(f"the cache of compiled kernels: {error}; SMEMKIT_CACHE names another folder") from None
    return folder


def _refuse_foreign(path: Path) -> None:
    """Raises unless it is this user's, and nobody else's to write."""
    status = path.stat() if path.is_dir() else path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        reason = f"it belongs to user {status.st_uid}, not to user {os.geteuid()} who runs this"
    elif mode & 0o022:
        reason = f"others may write to it (mode {mode:04o}); `chmod go-w` fixes that"
    elif not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        reason = "it is neither a folder nor a file"
    else:
        return
    raise Error(f"{path} would be loaded as code, and {reason}. SMEMKIT_CACHE names another folder")


def _trim(folder: Path) -> None:
    """Removes the entries that were used least lately, above the limit, and what interrupted compilations left."""
    entries = []
    for path in folder.iterdir():
        try:
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and path.suffix in (".so", ".gch", ".npz"):
                entries.append((status.st_mtime, status.st_size, path))
            elif path.name.startswith(".new-") and status.st_mtime < time.time() - _LEFT_BEHIND:
                shutil.rmtree(path, ignore_errors=True)
        except FileNotFoundError:
            continue  # another process was quicker
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= _LIMIT:
            break
        path.unlink(missing_ok=True)
        total -= size


def _run(command: list[str], folder: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _precompiled(folder: Path, compiler: list[str], command: list[str]) -> Path:
    """A header that includes the dialect's, with what the compiler made of it beside it, by the same command. To
    read that takes a fraction of the time. A compiler that cannot precompile it reads the header itself."""
    words = [*command[len(compiler) :], _dialect_identity(), identity(compiler[0])]
    header = folder / f"{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:32]}.h"
    compiled = header.with_name(f"{header.name}.gch")
    try:
        _refuse_foreign(header)
        _refuse_foreign(compiled)
        os.utime(compiled)
        return header
    except FileNotFoundError:
        pass
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
        source = Path(new, header.name)
        source.write_text(PRELUDE, encoding="utf-8")
        source.chmod(0o600)
        with contextlib.suppress(FileExistsError):
            os.link(source, header)
        made = Path(new, compiled.name)
        if _run([*command, "-x", "c++-header", str(header), "-o", str(made)], new).returncode == 0:
            made.chmod(0o600)
            made.replace(compiled)
    return header


def compile_library(
    text: str, options: tuple[str, ...], *, checked: bool, explain: Callable[[str], CompileError]
) -> Path:
    """The library of a kernel, from the cache or from the compiler.

    Parameters
    ----------
    text : str
        C++ for the dialect's headers, whole.
    options : tuple of str
        More for the compiler.
    checked : bool
        Whether it is for the checker.
    explain : callable
        Makes an exception of what the compiler says.

    Raises
    ------
    CompileError
        The compiler refuses it.
    Error
        There is no compiler, or the cache is not safe.
    """
    compiler = find_compiler()
    core = Path(_core.__file__)
    parts = [core, core.with_name("_hooks.o")] if checked else [core]
    words = [*compiler[1:], *options, str(checked), _dialect_identity(), *map(identity, [compiler[0], *parts])]
    key = hashlib.sha256("\0".join([*words, text]).encode()).hexdigest()[:32]
    folder = cache_folder()
    entry = folder / f"{key}.so"
    try:
        _refuse_foreign(entry)
        os.utime(entry)
        return entry
    except FileNotFoundError:
        pass
    command = [*_command(compiler, checked), *options]
    prelude = _precompiled(folder, compiler, command)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
        source, library = Path(new, "kernel.cpp"), Path(new, "kernel.so")
        source.write_text(text, encoding="utf-8")
        # in two steps: a linker that saw the checked build's flags would bring the sanitizers' own library
        compile_it = [*command, "-include", str(prelude), "-c", source.name, "-o", "kernel.o"]
        link_it = [*compiler, "-shared", *_LINK, "kernel.o", *map(str, parts), "-o", library.name]
        for step in compile_it, link_it:
            done = _run(step, new)
            if done.returncode:
                raise explain(done.stdout.decode(errors="replace"))
        library.chmod(0o600)
        library.replace(entry)
    _trim(folder)
    return entry


# ---- what a compiler says ---------------------------------------------------------------------------------------


def compile_error(output: str, sources: Mapping[str, str], host: Mapping[str, str]) -> CompileError:
    """A compiler's messages as an exception: the user's lines and text, without what lies behind them.

    Parameters
    ----------
    output : str
        What g++, clang++ or NVRTC said.
    sources : mapping
        The user's files: filename → text.
    host : mapping
        What was left out as host code: name → place.

    Returns
    -------
    CompileError
        With `file`, `line` (int or None) and `text` (the source line) of the first error.
    """
    errors = _own_errors(output, sources)
    refused = [
        (file, line, text.removeprefix(dialect.REFUSED)) for file, line, text in errors if dialect.REFUSED in text
    ]
    shown = []
    for file, line, message in refused or errors:
        text = _line_of(sources, file, line).strip()
        shown.append(f"{file}:{line}: {message}\n    {text}" if text else f"{file}: {message}")
        shown += [
            f"    {name} is host code ({host[name]}), which is left out; __device__ would keep it"
            for name in _named(message, host)
        ]
    for name in dict.fromkeys(re.findall(r"undefined (?:reference to `|symbol: )([^'\n]+)", output)):
        shown.append(f"{name} is declared, and defined nowhere")
    error = CompileError("\n".join(shown) or f"the compiler says:\n{output.strip()}")
    file, line, _ = errors[0] if errors else ("", 0, "")
    error.file, error.line, error.text = file, line if file in sources else None, _line_of(sources, file, line)
    return error


def _named(message: str, host: Mapping[str, str]) -> list[str]:
    """Which of `host` a message is about: 'fill', 'Lock::Lock(int)', and "Lock::grow" where it says 'grow'."""
    quoted = re.findall(r"['\"](?:\w+ )*([\w:~]+)(?:\([^'\"]*\))?['\"]", message)
    constructs = re.search("construct|conver", message)  # else a type's name does not mean its constructor
    found = [name for name in quoted if name in host]
    for name in host:
        owner, last = name.split("::")[-2:] if "::" in name else ("", name)
        if last in quoted and (constructs or owner != last):
            found.append(name)
    return list(dict.fromkeys(found))


def _line_of(sources: Mapping[str, str], file: str, line: int) -> str:
    lines = sources.get(file, "").split("\n")
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _own_errors(output: str, sources: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """(file, line, message) of each error, in the user's files. Where it is in another one, the line is the user's
    that led there, which g++ names before the error, and clang++ and NVRTC behind it."""
    errors: list[list] = []
    led_here = None
    for row in output.splitlines():
        match = _DIAGNOSTIC.match(row)
        behind = _LED_HERE.search(row)
        if not match and not behind:
            continue
        file, line = (match or behind)["file"], int((match or behind)["line"] or match["line_too"])
        place = (file, line) if file in sources or file.startswith("name=") else None
        kind = match["kind"] if match else "note"
        if kind and kind.endswith("error"):
            errors.append([place or led_here, _plain(match["text"])])
            led_here = None
        elif place and not kind:
            led_here = place
        elif place and errors and not errors[-1][0]:
            errors[-1][0] = place
    found = [(*place, message) for place, message in errors if place]
    own = [error for error in found if error[0] in sources]
    return list(dict.fromkeys(own or found[:1]))


def _plain(message: str) -> str:
    """Without the names that the dialect has for CUDA's types."""
    message = re.sub(r" \{aka '[^']*smemkit::[^']*'\}", "", message)
    return re.sub(r" \[-W[\w=+-]+\]$", "", message)
