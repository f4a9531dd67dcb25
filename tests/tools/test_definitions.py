"""Types and kernels of kernels/ have one definition.

All of these files are linked together. Of two types with the same name, the linker takes the functions of either
for both, without a word: two files of matmul had a `tile_order`, and checked kernels counted by the wrong one.
"""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (?:alignas\(.*\) )?(\w+)(?: : [^;{]*)?\s*\{", re.M)
KERNEL = re.compile(r"^(?!.*\bstatic\b).*__global__ void (?:__launch_bounds__\(.*\)\s+)?(\w+)\(", re.M)


def definitions(root):
    """The files that define each type and each kernel that is not static."""
    files = defaultdict(set)
    for path in sorted((root / "kernels").rglob("*.*")):
        if path.suffix in (".cu", ".cuh", ".h"):
            text = path.read_text(encoding="utf-8")
            for name in TYPE.findall(text) + KERNEL.findall(text):
                files[name].add(path.relative_to(root).as_posix())
    return files


def test_types_and_kernels_have_one_definition():
    found = definitions(ROOT)
    assert len(found) > 200
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


@pytest.mark.parametrize(
    "text",
    [
        "struct tile {\n",
        "template <class T, int N>\nstruct alignas(N * sizeof(T)) tile {\n",
        "enum tile : int { ONE };\n",
        "__global__ void tile(int *x)\n",
        "template <class T>\n__global__ void __launch_bounds__(BLOCK, 1)\n    tile(T *x)\n",
    ],
)
def test_two_definitions_are_found(tmp_path, text):
    for name in "a.cu", "b.cuh":
        path = tmp_path / "kernels" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert definitions(tmp_path) == {"tile": {"kernels/a.cu", "kernels/b.cuh"}}
