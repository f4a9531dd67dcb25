"""Checks that csrc/ depends in one direction only, as csrc/README.md draws it, and that nothing is too long.

    python tests/tools/layers.py [FOLDER]

Two sources show what a file depends on: its #include lines, and the symbols of its object, because a function may
be declared anywhere. The tool prints what breaks a rule and exits with 1. It compiles the objects itself, by $CC,
without optimisation; those of CUDA only if the compiler finds CUDA's headers.
"""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# From the lowest layer to the highest. Folders of one layer do not know each other.
LAYERS = [
    ["base"],
    ["executor"],
    ["checker"],
    ["device"],
    ["device/cuda"],
    ["python"],
    ["array"],
    ["call"],
    ["ops"],
    ["ops/matmul", "ops/reduce", "ops/transpose"],
    ["methods"],
    ["module"],
]
MAX_FILE_LINES, MAX_FUNCTION_LINES = 600, 60
PYTHON = "python"  # the lowest folder that may know Python
NOT_LINKED = {"checker/hooks.c", "executor/heap.c"}  # but into users' libraries, whose functions they replace
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}
LEVEL["vendor/dlpack"] = -1  # another project's header, which includes none of ours


def folder_of(file: str) -> str:
    return str(Path(file).parent)


def is_allowed(folder: str, other: str) -> bool:
    return folder == other or LEVEL[other] < LEVEL[folder]


def sources(csrc: Path) -> list[str]:
    found = [path for path in csrc.rglob("*.[ch]") if not {"include", "vendor"} & set(path.parts)]
    return sorted(str(path.relative_to(csrc)) for path in found)


def broken_includes(csrc: Path) -> list[str]:
    broken = []
    for file in sources(csrc):
        folder = folder_of(file)
        if folder not in LEVEL:
            broken.append(f"{file}: {folder} is no layer")
            continue
        for line in (csrc / file).read_text().splitlines():
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not match:
                continue
            name = match[2]
            if name.startswith("Python.h") and LEVEL[folder] < LEVEL[PYTHON]:
                broken.append(f"{file}: includes {name} below {PYTHON}/")
            other = folder_of(name) if (csrc / name).is_file() else folder
            if match[1] == '"' and not is_allowed(folder, other):
                broken.append(f"{file}: includes {name}")
    return broken


def too_long(csrc: Path) -> list[str]:
    found = []
    for file in sources(csrc):
        lines = (csrc / file).read_text().splitlines()
        if len(lines) > MAX_FILE_LINES:
            found.append(f"{file}: {len(lines)} lines, and {MAX_FILE_LINES} are allowed")
        begin = None
        for number, line in enumerate(lines, 1):
            if line == "{":
                begin = number
            elif line == "}" and begin and number - begin >= MAX_FUNCTION_LINES:
                found.append(f"{file}:{begin}: a function of {number - begin + 1} lines")
    return found


def symbols(target: Path) -> tuple[set[str], set[str]]:
    """What an object defines for others, and what it wants of them."""
    defined, wanted = set(), set()
    lines = subprocess.run(["nm", "-P", target], stdout=subprocess.PIPE, text=True, check=True).stdout
    for name, kind, *_ in map(str.split, lines.splitlines()):
        if kind in "TDBRCVW":
            defined.add(name)
        elif kind == "U":
            wanted.add(name)
    return defined, wanted


def compile_all(csrc: Path, into: Path) -> dict[str, Path]:
    """The objects, by source."""
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        "-std=c11",
        "-O0",
        "-w",
        "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION",
    ]
    command += ["-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION", f"-I{csrc}", f"-I{ROOT / 'kernels'}"]
    command += [f"-I{sysconfig.get_path('include')}"]
    files = [file for file in sources(csrc) if file.endswith(".c") and file not in NOT_LINKED]
    if any("numpy" in (csrc / file).read_text() for file in sources(csrc)):
        import numpy

        command.append(f"-I{numpy.get_include()}")
    probe = subprocess.run(
        [*command, "-E", "-x", "c", "-"], input="#include <cuda_runtime.h>", text=True, capture_output=True
    )
    if probe.returncode:
        files = [file for file in files if folder_of(file) != "device/cuda" or file.endswith("absent.c")]

    def compile_one(file):
        target = into / file.replace("/", "+").replace(".c", ".o")
        subprocess.run([*command, "-c", csrc / file, "-o", target], check=True)
        return file, target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(compile_one, files))


def broken_symbols(csrc: Path) -> list[str]:
    broken = []
    with tempfile.TemporaryDirectory() as folder:
        found = {file: symbols(target) for file, target in compile_all(csrc, Path(folder)).items()}
    home = {name: file for file, (defined, _) in found.items() for name in defined}
    users = defaultdict(list)
    for file, (_, wanted) in found.items():
        for name in sorted(wanted):
            other = home.get(name)
            if other and not is_allowed(folder_of(file), folder_of(other)):
                users[file, other].append(name)
            if re.match(r"_?Py[A-Z_]", name) and LEVEL[folder_of(file)] < LEVEL[PYTHON]:
                broken.append(f"{file}: calls {name} below {PYTHON}/")
    return broken + [
        f"{file}: uses {', '.join(names)} of {other}" for (file, other), names in sorted(users.items())
    ]


def main(csrc: Path = ROOT / "csrc") -> int:
    broken = broken_includes(csrc) + too_long(csrc)
    broken += broken_symbols(csrc) if not broken else []
    for line in broken:
        print(line, file=sys.stderr)
    print(f"{len(sources(csrc))} files in {len(LEVEL)} folders, {len(broken)} against their order")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
