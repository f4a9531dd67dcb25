"""Compiles kernels for the CPU device with the system's C++ compiler, and caches the libraries."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path

from smemkit import _core
from smemkit._core import CompileError, Error
from smemkit.cuda_source import flags
from smemkit.cuda_source.errors import ERROR_PREFIX
from smemkit.cuda_source.lexer import identifiers, mask
from smemkit.user_kernel.cache import cache_folder, check_ownership, evict, file_fingerprint

__all__ = [
    "CPU_PRELUDE",
    "INCLUDE",
    "compile_error",
    "compile_library",
    "expanded_headers",
    "find_compiler",
    "is_system_header",
]

INCLUDE = Path(str(files("smemkit._dialect").joinpath("include")))
_LINK_FLAGS = ("-Wl,--no-undefined",) if sys.platform == "linux" else ()
_FEW_LIBRARIES = ("-nodefaultlibs", "-lm", "-lc", "-lgcc")  # enough for most kernels, and quicker to link
# the same, as files that a process has loaded: the last defines __tls_get_addr
_LOADED_LIBRARIES = re.compile(r"libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|ld-linux-.*")
# begins every kernel for the CPU device; precompiled
CPU_PRELUDE = "#include <cuda_runtime.h>\n#include <assert.h>\n#include <smemkit/entry.h>\n"
# g++ refuses __forceinline__ where it cannot inline, for instance in a recursion; nvcc does not
_NOT_INLINED = b"inlining failed in call to 'always_inline'"
_INLINE_IF_POSSIBLE = f"{CPU_PRELUDE}#undef __forceinline__\n#define __forceinline__ inline\n"
_INSTALL_HINT = (
    "install g++ or clang (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or name one in CXX, or "
    "pip install 'smemkit[compiler]'"
)
_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\n:(]+)(?::(?P<line>\d+)(?::\d+)?:|\((?P<nvrtc_line>\d+)\):)\s*"
    r"(?:(?P<kind>(?:fatal |catastrophic )?error|note|warning)(?: #[\w-]+)?:\s)?(?P<text>.*)$"
)
_LINE_MARKER = re.compile(r'# \d+ "(?P<file>[^"]*)"')
_NVRTC_CONTEXT = re.compile(r"\bat line (?P<line>\d+) of \"?(?P<file>[^\"]+?)\"?$")


# ---- the compiler -----------------------------------------------------------------------------------------------


def find_compiler() -> list[str]:
    """The command of the C++ compiler: $CXX, otherwise c++, g++ or clang++, otherwise the clang of the package
    ziglang (smemkit[compiler]).

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
            return [path if os.environ.get("CXX") else _behind_ccache(path), *command[1:]]
    if not os.environ.get("CXX") and importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "c++"]
    wanted = f"CXX={os.environ['CXX']!r} was not found" if os.environ.get("CXX") else "none was found"
    raise Error(f"a kernel needs a C++ compiler to run on the CPU device, and {wanted}: {_INSTALL_HINT}")


def _behind_ccache(found: str) -> str:
    """The compiler that a link to ccache calls: the next in PATH, unless CCACHE_COMPILER names another.

    ccache keeps nothing that is compiled with a precompiled header, and would add a tenth to the time.
    """
    if Path(found).resolve().name == "ccache" and "CCACHE_COMPILER" not in os.environ:
        for folder in os.get_exec_path():
            other = shutil.which(Path(found).name, path=folder)
            if other and Path(other).resolve().name != "ccache":
                return other
    return found


@functools.cache
def _accepts(compiler: tuple[str, ...], flag: str) -> bool:
    only = "-E" if "ziglang" in compiler else "-fsyntax-only"  # which zig does not know
    probe = [*compiler, "-Werror", flag, only, "-x", "c++", os.devnull]
    return subprocess.run(probe, capture_output=True).returncode == 0


def _command(compiler: list[str], checked: bool) -> list[str]:
    """The command that compiles a kernel, without its file."""
    zig = ["-fno-sanitize=undefined"] if "ziglang" in compiler else []  # it enables that, with handlers of its own
    others = ["-fPIC", "-fvisibility=hidden", "-w", f"-I{INCLUDE}"]
    return [*compiler, *zig, *_flags(tuple(compiler), checked), *others]


@functools.cache
def _flags(compiler: tuple[str, ...], checked: bool) -> list[str]:
    """The flags of kernels, from the user's cache: whether a compiler accepts one takes a compilation."""
    words = [*compiler, _compiler_fingerprint(compiler), file_fingerprint(flags.__file__), str(checked)]
    try:
        folder = cache_folder()
        entry = folder / f"{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:32]}.json"
        with contextlib.suppress(FileNotFoundError, ValueError):
            check_ownership(entry)
            return json.loads(entry.read_text(encoding="utf-8"))
    except Error:
        return flags.compile_flags(partial(_accepts, compiler), checked=checked)
    found = flags.compile_flags(partial(_accepts, compiler), checked=checked)
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
        made = Path(new, entry.name)
        made.write_text(json.dumps(found), encoding="utf-8")
        made.chmod(0o600)
        made.replace(entry)
    return found


def _few_libraries(compiler: Sequence[str]) -> Sequence[str]:
    """The options with which most kernels are linked. ziglang would first compile libraries of its own, the C++
    library among them, for a minute; with it kernels are linked with the files that this process has loaded."""
    if "ziglang" not in compiler:
        return _FEW_LIBRARIES
    try:
        mapped = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    except OSError:  # not on Linux
        return _FEW_LIBRARIES
    paths = {words[5] for words in mapped if len(words) == 6}
    return ["-nostdlib", *sorted(path for path in paths if _LOADED_LIBRARIES.fullmatch(Path(path).name))]


@functools.cache
def _compiler_fingerprint(compiler: tuple[str, ...]) -> str:
    """Changes when the compiler does. Its file may be a wrapper, such as ccache's; its version says more."""
    if "ziglang" in compiler:
        [package] = importlib.util.find_spec("ziglang").submodule_search_locations
        return file_fingerprint(Path(package, "zig"))
    version = subprocess.run([*compiler, "--version"], stdin=subprocess.DEVNULL, capture_output=True)
    return f"{file_fingerprint(compiler[0])} {version.stdout.decode(errors='replace')}"


@functools.cache
def _dialect_headers() -> dict[str, bytes]:
    headers = [*INCLUDE.rglob("*"), *INCLUDE.parent.glob("*.h")]
    return {str(header): header.read_bytes() for header in sorted(headers) if header.is_file()}


@functools.cache
def _dialect_fingerprint() -> str:
    digest = hashlib.sha256()
    for header, content in _dialect_headers().items():
        digest.update(f"{header}\n".encode() + content)
    return digest.hexdigest() + file_fingerprint(flags.__file__)


@functools.cache
def _settings() -> frozenset[str]:
    """The macros that select what the dialect's headers contain: __CUDA_ARCH__, NDEBUG."""
    text = mask(b"\n".join(_dialect_headers().values()).decode())
    conditions = re.findall(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*)", text, re.MULTILINE)
    return identifiers("\n".join(conditions))


def _split_options(options: Sequence[str]) -> tuple[list[str], str]:
    """The options that the dialect's headers are compiled with, and the macros that are defined after these: their
    names may be the headers' own, such as N and T."""
    before, after = [], []
    for option in options:
        kind, name, value = re.fullmatch(r"(-[DU]?)(\w*)(.*)", option, re.DOTALL).groups()
        if kind == "-" or name.startswith("_") or name in _settings():
            before.append(option)
        elif kind == "-U":
            after.append(f"#undef {name}\n")
        else:
            parameters, equals, body = value.partition("=")
            after.append(f"#define {name}{parameters} {body if equals else 1}\n")
    return before, "".join(after)


# of the compiler itself, and of another system, which sources include behind an #if
_COMPILER_HEADERS = {"float.h", "limits.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "windows.h", "io.h"}


def is_system_header(name: str) -> bool:
    """Whether a header is the dialect's or is where compilers look first."""
    return name in _COMPILER_HEADERS or any((folder / name).is_file() for folder in (INCLUDE, *_system_folders()))


@functools.cache
def _system_folders() -> tuple[Path, ...]:
    usual = [Path("/usr/include"), Path("/usr/local/include")]
    return (*usual, *usual[0].glob("*-linux-gnu*"))


# ---- libraries, from the cache or from the compiler -------------------------------------------------------------


def _run(command: list[str], folder: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _precompiled_header(folder: Path, compiler: list[str], command: list[str]) -> Path:
    """A header that includes the dialect's headers, with its precompiled form next to it, made by the same
    command. A compiler reads that in a fraction of the time. One that cannot precompile it reads the header
    itself."""
    words = [*command[len(compiler) :], _dialect_fingerprint(), _compiler_fingerprint(tuple(compiler))]
    header = folder / f"{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:32]}.h"
    compiled = header.with_name(f"{header.name}.gch")
    try:
        check_ownership(header)
        check_ownership(compiled)
        os.utime(compiled)
        return header
    except FileNotFoundError:
        pass
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
        source = Path(new, header.name)
        source.write_text(CPU_PRELUDE, encoding="utf-8")
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
        The complete C++ source, for the dialect's headers.
    options : tuple of str
        Further options for the compiler.
    checked : bool
        Whether to make a checked build.
    explain : callable
        Makes an exception from the compiler's output.

    Raises
    ------
    CompileError
        The compiler reports an error.
    Error
        There is no compiler, or the cache is not safe.
    """
    compiler = find_compiler()
    core = Path(_core.__file__)
    parts = [core, core.with_name("_heap.o"), *([core.with_name("_hooks.o")] if checked else [])]
    words = [
        *compiler[1:],
        *options,
        str(checked),
        _dialect_fingerprint(),
        _compiler_fingerprint(tuple(compiler)),
        *map(file_fingerprint, parts),
    ]
    key = hashlib.sha256("\0".join([*words, text]).encode()).hexdigest()[:32]
    folder = cache_folder()
    entry = folder / f"{key}.so"
    try:
        check_ownership(entry)
        os.utime(entry)
        return entry
    except FileNotFoundError:
        pass
    before, macros = _split_options(options)
    command = [*_command(compiler, checked), *(option for option in before if not option.startswith("-I"))]
    prelude = _precompiled_header(folder, compiler, command)
    command += [option for option in before if option.startswith("-I")]
    if checked and "wgmma" in text and _accepts(tuple(compiler), flags.LOCALS_FLAG):
        command.append(flags.LOCALS_FLAG)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
        source, library = Path(new, "kernel.cpp"), Path(new, "kernel.so")
        text = f"{CPU_PRELUDE}{macros}{text}"
        source.write_text(text, encoding="utf-8")
        # two steps: with the checked build's flags the linker would add the sanitizer's runtime library
        compile_it = [*command, "-include", str(prelude), "-c", source.name, "-o", "kernel.o"]
        link_it = [*compiler, "-shared", *_LINK_FLAGS, "kernel.o", *map(str, parts), "-o", library.name]
        done = _run(compile_it, new)
        if done.returncode and _NOT_INLINED in done.stdout:
            source.write_text(_INLINE_IF_POSSIBLE + text, encoding="utf-8")
            done = _run(compile_it, new)
        for libraries in (_few_libraries(compiler), ()) if done.returncode == 0 else ():
            done = _run([*link_it, *libraries], new)
            if done.returncode == 0:
                break
        if done.returncode:
            raise explain(done.stdout.decode(errors="replace"))
        library.chmod(0o600)
        library.replace(entry)
    evict(folder)
    return entry


def expanded_headers(headers: Sequence[str]) -> dict[str, str]:
    """The text of the dialect's headers after preprocessing, by file: "smemkit/sync.h" → text.

    Parameters
    ----------
    headers : sequence of str
        "cuda_fp16.h"; headers that they include are in the result, too.

    Raises
    ------
    Error
        There is no compiler.
    """
    source = CPU_PRELUDE + "".join(f"#include <{name}>\n" for name in headers)
    command = [*_command(find_compiler(), checked=False), "-E", "-x", "c++", "-"]
    done = subprocess.run(command, input=source.encode(), capture_output=True, check=True)
    texts: dict[str, list[str]] = {}
    file = None
    for line in done.stdout.decode(errors="replace").split("\n"):
        if marker := _LINE_MARKER.match(line):
            path = Path(os.path.normpath(marker["file"]))
            file = str(path.relative_to(INCLUDE)) if path.is_relative_to(INCLUDE) else None
        elif file and not line.startswith("#"):
            texts.setdefault(file, []).append(line)
    return {name: "\n".join(lines) for name, lines in texts.items()}


# ---- compiler messages ------------------------------------------------------------------------------------------


def compile_error(
    output: str, sources: Mapping[str, str], host: Mapping[str, str], missing: Sequence[str] = ()
) -> CompileError:
    """An exception from a compiler's output, with errors located in the user's source.

    Parameters
    ----------
    output : str
        The output of g++, clang++ or NVRTC.
    sources : mapping
        The user's files: filename → text.
    host : mapping
        The host code that was left out: name → location.
    missing : sequence of str
        Notes about headers that were not found.

    Returns
    -------
    CompileError
        With `file`, `line` (int or None) and `text` (the source line) of the first error; `errors`, an exception
        for each; and `undefined`, what is declared but not defined.
    """
    errors = _errors_in_user_files(output, sources)
    refused = [error for error in errors if ERROR_PREFIX in error[2]]
    located = [_located_error(*error, sources, host, missing) for error in refused or errors]
    undefined = tuple(dict.fromkeys(re.findall(r"undefined (?:reference to `|symbol: )([^'\n]+)", output)))
    shown = [error.shown for error in located] + [f"{name} is declared but not defined" for name in undefined]
    error = CompileError("\n".join([*shown, *missing]) if shown else f"the compiler's output:\n{output.strip()}")
    _set_location(error, *(errors[0][:2] if errors else ("", 0)), sources)
    error.errors, error.undefined = located, undefined
    return error


def _located_error(
    file: str, line: int, text: str, sources: Mapping, host: Mapping, missing: Sequence[str]
) -> CompileError:
    """One error of a compiler's output; `shown` is its message without the missing headers."""
    message, source = text.removeprefix(ERROR_PREFIX), _source_line(sources, file, line).strip()
    shown = [f"{file}:{line}: {message}\n    {source}" if source else f"{file}: {message}"]
    shown += [
        f"    {name} is host code ({host[name]}), which is left out; mark it __device__ to keep it"
        for name in _host_names_in(message, host)
    ]
    error = CompileError("\n".join([*shown, *missing]))
    error.shown = "\n".join(shown)
    _set_location(error, file, line, sources)
    return error


def _set_location(error: CompileError, file: str, line: int, sources: Mapping[str, str]) -> None:
    error.file, error.line, error.text = file, line if file in sources else None, _source_line(sources, file, line)


def _host_names_in(message: str, host: Mapping[str, str]) -> list[str]:
    """The names in `host` that a message mentions: 'fill', 'Lock::Lock(int)', and "Lock::grow" for 'grow'."""
    quoted = re.findall(r"['\"](?:\w+ )*([\w:~]+)(?:\([^'\"]*\))?['\"]", message)
    constructs = re.search("construct|conver", message)  # otherwise a type's name is not its constructor
    found = [name for name in quoted if name in host]
    for name in host:
        owner, last = name.split("::")[-2:] if "::" in name else ("", name)
        if last in quoted and (constructs or owner != last):
            found.append(name)
    return list(dict.fromkeys(found))


def _source_line(sources: Mapping[str, str], file: str, line: int) -> str:
    lines = sources.get(file, "").split("\n")
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _errors_in_user_files(output: str, sources: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """(file, line, message) of each error, in the user's files. An error in another file gets the user's line that
    includes or instantiates the code. g++ names that line before the error, clang++ and NVRTC after it."""
    errors: list[list] = []
    user_location = None
    for row in output.splitlines():
        match = _DIAGNOSTIC.match(row)
        nvrtc_context = _NVRTC_CONTEXT.search(row)
        if not match and not nvrtc_context:
            continue
        file, line = (match or nvrtc_context)["file"], int((match or nvrtc_context)["line"] or match["nvrtc_line"])
        location = (file, line) if file in sources or file.startswith("name=") else None
        kind = match["kind"] if match else "note"
        if kind and kind.endswith("error"):
            errors.append([location or user_location, _strip_dialect_names(match["text"])])
            user_location = None
        elif location and not kind:
            user_location = location
        elif location and errors and not errors[-1][0]:
            errors[-1][0] = location
    found = [(*location, message) for location, message in errors if location]
    own = [error for error in found if error[0] in sources]
    return list(dict.fromkeys(own or found[:1]))


def _strip_dialect_names(message: str) -> str:
    """A message without the dialect's own type names, and without the warning flag at its end."""
    message = re.sub(r" \{aka '[^']*smemkit::[^']*'\}", "", message)
    return re.sub(r" \[-W[\w=+-]+\]$", "", message)
