"""A launch as text, as `smemkit check`, smemkit.toml and `%%smemkit` take it: ``--grid 4 --arg 'float[1024]' …``.

Nothing is evaluated: `parse_argument` accepts a small grammar, and its error says what was expected.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smemkit.user_kernel.tensor_map import TensorMap

__all__ = [
    "add_arguments",
    "add_compiler_options",
    "compiler_options",
    "join_values",
    "parse_argument",
    "parse_blocks",
    "parse_dimensions",
    "split",
]

GRAMMAR = (
    "an array TYPE[SHAPE] or TYPE[SHAPE]=FILL (FILL: random, zeros, ones, iota, a number, FILE.npy), an array "
    "from a file FILE.npy, a scalar such as 3, 0.5, true or float=0.5, nullptr, or a tensor map, tensormap ARRAY "
    "box ROWS,COLUMNS swizzle 128"
)
# C's and CUDA's names; NumPy's (float32, uint8, …) are accepted, too. The words of a type come in any order.
C_TYPES = {
    "bool": "bool",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "signed": "int32",
    "unsigned": "uint32",
    "long": "int64",
    "long long": "int64",
    **dict.fromkeys(("longlong", "ptrdiff_t", "ssize_t", "intptr_t", "clock_t"), "int64"),
    **{"uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64", "ulonglong": "uint64"},
    **dict.fromkeys(("size_t", "uintptr_t"), "uint64"),
    **dict.fromkeys(("half", "__half"), "float16"),
    "float": "float32",
    "double": "float64",
    **{"cuComplex": "complex64", "cuFloatComplex": "complex64", "cuDoubleComplex": "complex128"},
    **{f"{kind}{bits}_t": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
BFLOAT16 = ("bfloat16", "__nv_bfloat16", "nv_bfloat16")
ML_DTYPES = dict.fromkeys(BFLOAT16, "bfloat16")  # types that NumPy lacks
ML_DTYPES |= {"__nv_fp8_e4m3": "float8_e4m3fn", "__nv_fp8_e5m2": "float8_e5m2"}
PAIRS = {"half2": "half", "__half2": "half"} | {name.replace("16", "162"): name for name in BFLOAT16}
NUMPY_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
NUMPY_TYPES += ("float16", "float32", "float64", "complex64", "complex128")
STRUCT = re.compile(r"struct(\d{1,4})")  # a structure of the user's: only its size is known
VECTOR = re.compile(r"(char|uchar|short|ushort|int|uint|long|ulong|longlong|ulonglong|float|double)([1234])")
# what a tensor map has besides its array: the parameters of `TensorMap`
MAP_OPTIONS = ("box", "swizzle", "fill", "strides", "element_strides", "tf32")
FILLS = ("random", "zeros", "ones", "iota")
INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|\d+)[uUlL]{0,3}")
FLOAT = re.compile(r"([+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)[fF]?|([+-]?(?:inf|nan))")


# ---- arguments of a kernel ----


def parse_argument(text: str, index: int = 0, seed: int = 0, *, folder: str | Path = "") -> Any:
    """An argument of a kernel from its description.

    Parameters
    ----------
    text : str
        ``float[1024]``, ``uint[64,64]=iota``, ``double[16]=0.5``, ``float[8]=x.npy``, ``x.npy``, ``3``, ``-0.5``,
        ``true``, ``unsigned char=7``. ``@x`` is a file of any name.
        ``tensormap half[128,64] box 64,64 swizzle 128`` is a `TensorMap`, with its other parameters likewise:
        ``fill nan element_strides 2,1 tf32``.
    index, seed : int
        The argument's position, which with `seed` determines random fills.
    folder : path
        The folder that relative paths of files start in; the working directory if not given.

    Returns
    -------
    numpy.ndarray, TensorMap, numpy.generic, int, float, bool or None
        None is a null pointer. A scalar without a type is a Python number, which the kernel's signature converts.

    Raises
    ------
    ValueError
        The text does not follow the grammar; the message states it.

    Examples
    --------
    >>> parse_argument("int[2,3]=iota")
    array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    >>> parse_argument("0x10"), parse_argument("1e-3f")
    (16, 0.001)
    """
    text = text.strip()
    where = f"--arg {shlex.quote(text)}"
    if text.startswith("tensormap "):
        return _tensor_map(text, index, seed, folder, where)
    if file := _file_name(text):
        return _load(Path(folder, file), where)
    if text in ("nullptr", "NULL"):
        return None
    scalar = _scalar(text)
    if scalar is not None:
        return scalar
    left, equals, fill = (part.strip() for part in text.partition("="))
    name, bracket, rest = (part.strip() for part in left.partition("["))
    if not re.fullmatch(r"[A-Za-z_]\w*(?:\s+[A-Za-z_]\w*)*", name) or (equals and not fill):
        raise ValueError(f"{where}: expected {GRAMMAR}")
    if not bracket and not equals:
        if _is_type(name):
            raise ValueError(f"{where}: a type is not an argument: {name}[1024] is an array, {name}=3 a scalar")
        raise ValueError(f"{where}: expected {GRAMMAR}")
    dtype, lanes = _dtype(name, where)
    if bracket:
        shape = (*_shape(rest, where), *lanes)
        file = _file_name(fill)
        if file:
            return _load_as(dtype, shape, Path(folder, file), where)
        return _array(dtype, shape, fill or "random", where, [seed, index])
    if lanes or dtype.name.startswith("void"):
        raise ValueError(f"{where}: a vector or structure by value is not supported; {name}[1] is an array of one")
    value = _scalar(fill)
    if value is None:
        raise ValueError(
            f"{where}: expected a number after the equals sign, got {fill!r}; an array is {name}[1024]"
        )
    return _cast(value, dtype, where)


def _tensor_map(text: str, index: int, seed: int, folder: str | Path, where: str) -> TensorMap:
    """The tensor map of "tensormap half[128,64] box 64,64 swizzle 128"."""
    names = "|".join(MAP_OPTIONS)
    array, *words = re.split(rf"\s+({names})\b", text.removeprefix("tensormap "))
    options: dict[str, Any] = {}
    for name, value in zip(words[::2], map(str.strip, words[1::2]), strict=True):
        if name in options:
            raise ValueError(f"{where}: {name} is given twice")
        if name == "tf32" and not value:
            options[name] = True
        elif name == "fill" and re.fullmatch(r"[a-z]+", value):
            options[name] = value
        elif name == "swizzle" and value.isdecimal():
            options[name] = int(value)
        elif name not in ("tf32", "fill", "swizzle") and re.fullmatch(r"\d+(\s*,\s*\d+)*", value):
            options[name] = tuple(map(int, value.split(",")))
        else:
            known = ", ".join(MAP_OPTIONS)
            got = f"{name} {value}".rstrip()
            raise ValueError(f"{where}: expected {known}, each with its value, as in swizzle 128; got {got}")
    if "box" not in options:
        raise ValueError(f"{where}: expected the box of the tensor map, such as box 64,64")
    try:
        content = parse_argument(array, index, seed, folder=folder)
        if not isinstance(content, np.ndarray):
            raise ValueError(f"expected an array, such as half[128,64], got {array.strip()!r}")
        return TensorMap(content, options.pop("box"), **options)
    except ValueError as error:
        reason = str(error).removeprefix(f"--arg {shlex.quote(array.strip())}: ")
        raise ValueError(f"{where}: {reason}") from error


def _file_name(text: str) -> str:
    """The file that an argument or a fill names: x.npy, or @x for any name; "" if it does not name one."""
    return text[1:] if text.startswith("@") else text if text.endswith(".npy") and "=" not in text else ""


def _scalar(text: str) -> int | float | bool | None:
    """A literal of C or Python; None if it is not one."""
    if text in ("true", "True", "false", "False"):
        return text.lower() == "true"
    if match := INTEGER.fullmatch(text):
        digits = match[2]
        value = int(digits, 16) if digits[:2].lower() == "0x" else int(digits)
        return -value if match[1] == "-" else value
    match = FLOAT.fullmatch(text)
    return float(match[1] or match[2]) if match else None


def _is_type(name: str) -> bool:
    name = _canonical(name)
    return (
        name in C_TYPES
        or name in NUMPY_TYPES
        or name in BFLOAT16
        or name in PAIRS
        or bool(VECTOR.fullmatch(name) or STRUCT.fullmatch(name))
    )


def _canonical(name: str) -> str:
    """A type's name as `C_TYPES` has it: "long unsigned int" and "const unsigned long" are both "ulong"."""
    words = [word for word in name.split() if word not in ("const", "volatile")]
    sizes = [word for word in words if word in ("char", "short", "long")]
    signs = [word for word in words if word in ("signed", "unsigned")]
    other = [word for word in words if word not in (*sizes, *signs, "int")]
    plain = " ".join(sizes)
    several = other or len(signs) > 1 or words.count("int") > 1 or ("int" in words and plain == "char")
    if not words or several or plain not in ("", "char", "short", "long", "long long"):
        return " ".join(words)
    return ("u" if signs == ["unsigned"] else "") + (plain or "int").replace(" ", "")


def _dtype(name: str, where: str) -> tuple[np.dtype, tuple[int, ...]]:
    """The dtype of a type's name, and the trailing shape of a vector type such as float4."""
    name = _canonical(name)
    if name in PAIRS:
        return _dtype(PAIRS[name], where)[0], (2,)
    if name in ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError as error:
            raise ValueError(f"{where}: {name} needs ml_dtypes: pip install ml_dtypes") from error
        return np.dtype(getattr(ml_dtypes, ML_DTYPES[name])), ()
    if vector := VECTOR.fullmatch(name):
        return np.dtype(C_TYPES[vector[1]]), (int(vector[2]),)
    if (struct := STRUCT.fullmatch(name)) and int(struct[1]):
        return np.dtype(f"V{struct[1]}"), ()
    if name in C_TYPES or name in NUMPY_TYPES:
        return np.dtype(C_TYPES.get(name, name)), ()
    known = "float, double, half, bfloat16, int, uint, unsigned char, size_t, float4, …, or NumPy's float32, uint8"
    structs = "a structure of 16 bytes is struct16"
    raise ValueError(f"{where}: unknown type {name!r}; expected one of C's, {known}; {structs}")


def _shape(rest: str, where: str) -> tuple[int, ...]:
    """The shape from the text after the opening bracket: "64,64]", or C's "64][64]"."""
    sizes = re.split(r"\s*(?:,|\]\s*\[)\s*", rest[:-1]) if rest.endswith("]") else [""]
    if not all(re.fullmatch(r"\s*\d+(?:_\d+)*\s*", size) for size in sizes):
        raise ValueError(f"{where}: expected a shape of whole numbers in brackets, [1024] or [64,64]")
    return tuple(int(size) for size in sizes)


def _array(dtype: np.dtype, shape: tuple[int, ...], fill: str, where: str, seed: list[int]) -> np.ndarray:
    try:
        if fill == "random":
            return _random(dtype, shape, np.random.default_rng(seed))
        if dtype.kind == "V" and dtype.name.startswith("void") and fill != "zeros":
            raise ValueError(f"{where}: structures are filled with random, zeros or @FILE.npy; got {fill!r}")
        if fill == "zeros":
            return np.zeros(shape, dtype)
        if fill == "ones":
            return np.full(shape, 1, dtype)
        if fill == "iota":
            size = math.prod(shape)
            if dtype.kind in "iu" and size > np.iinfo(dtype).max + 1:
                raise ValueError(f"{where}: iota counts to {size - 1}, which {dtype} cannot hold")
            return np.arange(size).astype(dtype).reshape(shape)
        value = _scalar(fill)
        if value is None:
            raise ValueError(f"{where}: expected one of {', '.join(FILLS)}, a number or @FILE.npy; got {fill!r}")
        return np.full(shape, _cast(value, dtype, where))
    except (MemoryError, OverflowError) as error:
        raise ValueError(f"{where}: an array of that size does not fit in memory") from error
    except ValueError as error:
        if str(error).startswith("--arg"):
            raise
        raise ValueError(f"{where}: {error}") from error  # NumPy's: "Maximum allowed dimension exceeded"


def _random(dtype: np.dtype, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Normally distributed floats; integers from 0 to 99, because they may be lengths or indices; structures as
    floats, if their size is a multiple of 4."""
    if dtype.name.startswith("void"):
        inner = np.dtype("float32" if dtype.itemsize % 4 == 0 else "uint8")
        members = _random(inner, (*shape, dtype.itemsize // inner.itemsize), rng)
        return members.view(dtype).reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def _cast(value: float, dtype: np.dtype, where: str) -> Any:
    """A number as a scalar of `dtype`; ValueError if it is out of range."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(f"{where}: {value} is not an integer, as {dtype} requires")
        if not limits.min <= value <= limits.max:
            raise ValueError(f"{where}: {value} is not in the range of {dtype}, {limits.min} to {limits.max}")
        value = int(value)
    try:
        with np.errstate(over="ignore"):
            cast = np.asarray(value).astype(dtype)[()]
    except OverflowError:  # an integer that no float holds
        cast = np.inf
    if not np.isfinite(cast) and (isinstance(value, int) or math.isfinite(value)):
        raise ValueError(f"{where}: {value} is not in the range of {dtype}")
    return cast


def _load_as(dtype: np.dtype, shape: tuple[int, ...], path: Path, where: str) -> np.ndarray:
    """The array of a file, which must have this dtype and shape."""
    array = _load(path, where)
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"{where}: {path} holds {array.dtype} of shape {array.shape}, not {dtype} of shape {shape}"
        )
    return array


def _load(path: Path, where: str) -> np.ndarray:
    name = str(path)
    try:
        loaded = np.load(name, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"{where}: cannot read {name!r} as a .npy file: {reason}") from error
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise ValueError(f"{where}: {name!r} holds several arrays; expected a .npy file, not .npz")
    return loaded


# ---- grids and options ----


def parse_dimensions(text: str, option: str) -> tuple[int, ...]:
    """A grid or a block: "4", "4,2", "4,2,1"; x instead of a comma is accepted."""
    parts = re.split(r"[,x]", text.strip().strip("()"))
    if not 1 <= len(parts) <= 3 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"{option}: expected one to three numbers above 0, such as 4 or 4,2,1; got {text!r}")
    return tuple(int(part) for part in parts)


def parse_blocks(text: str) -> str | int:
    """The blocks to check: "auto", "all" or their number."""
    if text in ("auto", "all"):
        return text
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"--blocks: expected auto, all or a number above 0, got {text!r}")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a launch and of a check."""
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks of the grid")
    parser.add_argument("--block", metavar="X[,Y[,Z]]", help="threads per block")
    parser.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory per block")
    parser.add_argument("--cluster", metavar="X[,Y[,Z]]", help="blocks of a cluster")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="ARG",
        help="the kernel's next argument: " + GRAMMAR,
    )
    add_compiler_options(parser)
    parser.add_argument(
        "--schedule",
        choices=("serial", "lockstep", "random"),
        default="serial",
        help="the order of threads: one after the other, warps in lockstep, or random with --seed",
    )
    parser.add_argument("--seed", type=int, default=0, help="for random data and --schedule random (default 0)")
    parser.add_argument("--blocks", default="auto", metavar="auto|all|N", help="the blocks to check")


def add_compiler_options(parser: argparse.ArgumentParser) -> None:
    """Adds -I, -D, -U and --std, spelt as compilers take them."""
    group = parser.add_argument_group("compiling, as for nvcc")
    for letter, value, what in (
        ("I", "FOLDER", "search this folder for headers"),
        ("D", "NAME[=VALUE]", "define a macro"),
        ("U", "NAME", "undefine a macro"),
    ):
        group.add_argument(
            f"-{letter}", action="append", default=[], dest=f"flag_{letter}", metavar=value, help=what
        )
    group.add_argument("--std", "-std", metavar="VERSION", help="the C++ version: c++17 (default), c++20 or c++23")
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="OPTION",
        help="one of the options above in one word, such as --option -DTILE=16",
    )


def compiler_options(options: argparse.Namespace) -> tuple[str, ...]:
    """The options of `smemkit.Kernel` from -I, -D, -U, --std and --option."""
    flags = [f"-{letter}{value}" for letter in "IDU" for value in getattr(options, f"flag_{letter}")]
    return (*flags, *([f"-std={options.std}"] if options.std else []), *options.option)


def join_values(arguments: Sequence[str], options: Sequence[str] = ("--option", "--arg")) -> list[str]:
    """Joins "--option -DTILE=16" with an equals sign: argparse rejects values that begin with a hyphen."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in options:
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def split(line: str) -> list[str]:
    """The words of a magic's line, split as by a shell, and joined by `join_values`."""
    return join_values(shlex.split(line))


def configured_launch(kernel: Any, options: argparse.Namespace) -> Any:
    """``kernel[grid, block, shared_bytes, None, cluster]`` from the options."""
    missing = [name for name in ("grid", "block") if getattr(options, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]}: expected the {_WORDS[missing[0]]}, such as --{missing[0]} 4,2")
    if options.shared < 0:
        raise ValueError(f"--shared: expected a number of bytes, 0 or more, got {options.shared}")
    grid, block = (parse_dimensions(getattr(options, name), f"--{name}") for name in ("grid", "block"))
    if options.cluster is None:
        return kernel[grid, block, options.shared]
    return kernel[grid, block, options.shared, None, parse_dimensions(options.cluster, "--cluster")]


_WORDS = {"grid": "number of blocks", "block": "number of threads in a block"}


def kernel_arguments(options: argparse.Namespace, names: Mapping[str, Any] | None = None) -> list[Any]:
    """The kernel's arguments: the value of a name in `names`, or what `parse_argument` reads."""
    found, folder = names or {}, getattr(options, "folder", "")
    return [
        found[text]
        if text.isidentifier() and text in found
        else parse_argument(text, index, options.seed, folder=folder)
        for index, text in enumerate(options.arg)
    ]
