"""CUB's block and warp primitives, and cuda::std, from the `nvidia-cuda-cccl` package (smemkit[cccl]).

The package's headers are compiled as they are, except for what the CPU device lacks: inline PTX becomes what
`cuda_source.ptx` makes of it; a `__shared__` variable of a function, which CUB's default constructors have, a
variable of the worker that runs the block; a declaration of `__half` or `__nv_bfloat16` the header that defines
it; and `__isGridConstant` a trap. The changed headers are written to a folder of the cache, which compilers
search first.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from smemkit.cuda_source import dialect
from smemkit.user_kernel.cache import cache_folder, check_ownership, file_fingerprint

__all__ = ["INSTALL_HINT", "compile_options", "find_headers", "needed_headers"]

INSTALL_HINT = "CUB and cuda::std come with an extra: pip install 'smemkit[cccl]'"
_REWRITERS = ("dialect", "asm_statements", "ptx", "ptx_async_forms", "ptx_instructions", "ptx_reader")
_FOLDERS = ("cu13/include/cccl", "cu12/include/cccl", "cuda_cccl/include")
_PRIMITIVE = re.compile(r"(?<!\w)(?P<kind>Block|Warp)(?P<name>[A-Z]\w*)")
_NARROW = r"\bstruct __(?:half|nv_bfloat16)2?;"  # which the dialect's types are not
_CHANGED = re.compile(rf"\b(?:asm|__asm__|__shared__|__isGridConstant)\b|{_NARROW}")
_ASKS_DRIVER = "cub/util_device.cuh"  # functions of the host, which CUB's block primitives include but do not call
# types of 8 bits and less are not needed, and neither are ranges for a profiler, whose headers are found elsewhere
_DEFINES = (
    "_CUDA_PTX_CP_REDUCE_ASYNC_BULK_H_",
    "__CUDA_ARCH_LIST__=900",
    "CCCL_DISABLE_NVFP8_SUPPORT",
    "CCCL_DISABLE_NVTX",
    "NVTX_DISABLE",
    "THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP",  # whose iterators CUB uses
)


@functools.cache
def find_headers() -> Path | None:
    """The folder of the package's headers; None if it is not installed."""
    found = importlib.util.find_spec("nvidia")
    for location in found.submodule_search_locations or () if found else ():
        for folder in _FOLDERS:
            if (Path(location, folder) / "cub").is_dir():
                return Path(location, folder)
    return None


def needed_headers(code: str) -> list[str]:
    """The headers of the primitives that device code names, qualified or after `using namespace cub`.

    Examples
    --------
    >>> needed_headers("typedef cub::BlockReduce<int, 32> R; cub::WarpScan<int> s;")
    ['cub/block/block_reduce.cuh', 'cub/warp/warp_scan.cuh']
    """
    found = {(match["kind"].lower(), _snake(match["name"])) for match in _PRIMITIVE.finditer(code)}
    known = find_headers()
    headers = [f"cub/{kind}/{kind}_{name}.cuh" for kind, name in sorted(found)]
    return [header for header in headers if known is None or (known / header).is_file()]


def _snake(name: str) -> str:
    name = re.sub(r"Algorithm$", "", name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def compile_options() -> tuple[str, ...]:
    """The options that compile a source with the package's headers."""
    headers = find_headers()
    if headers is None:
        return ()
    return ("-fpermissive", *(f"-D{name}" for name in _DEFINES), f"-I{_overlay(headers)}", f"-I{headers}")


def _overlay(headers: Path) -> Path:
    """The folder with the changed headers, written once for each release."""
    parts = [
        file_fingerprint(headers / "cub/version.cuh"),
        file_fingerprint(__file__),
        *(file_fingerprint(Path(dialect.__file__).with_name(f"{name}.py")) for name in _REWRITERS),
    ]
    folder = cache_folder() / f"cccl-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"
    try:
        check_ownership(folder)
        return folder
    except FileNotFoundError:
        pass
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as new:
        for source, text in _changed_headers(headers):
            target = Path(new, "overlay", source.relative_to(headers))
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.write_text(text, encoding="utf-8")
        try:
            Path(new, "overlay").rename(folder)
        except OSError:
            shutil.rmtree(Path(new, "overlay"), ignore_errors=True)  # another process was first
    return folder


def _changed_headers(headers: Path) -> Iterator[tuple[Path, str]]:
    for library in ("cub", "cuda"):
        for source in sorted((headers / library).rglob("*")):
            text = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""
            if source == headers / _ASKS_DRIVER:
                yield source, "#pragma once\n" + "\n".join(re.findall(r"^#\s*include.*", text, re.MULTILINE))
            elif _CHANGED.search(text):
                yield source, _changed(text)


def _changed(text: str) -> str:
    text, _ = dialect.rewrite_asm(text, _trap)
    text = re.sub(r"(?<!extern )\b__shared__\b", "static thread_local", text)
    text = re.sub(_NARROW, lambda match: f"#include <cuda_{'fp' if 'half' in match[0] else 'bf'}16.h>", text)
    return re.sub(r"::__isGridConstant\(\w+\)", f"({_trap('__isGridConstant')}, 0)", text)


def _trap(message: str) -> str:
    return f'smemkit_trap("{message}", __FILE__, __LINE__)'
