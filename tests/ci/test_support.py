"""`smemkit support`: what it lists is what the dialect has."""

import re
import shutil

import pytest

from smemkit.__main__ import main
from smemkit.ci import support
from smemkit.cuda_source import dialect
from smemkit.user_kernel import compiler


@pytest.fixture(scope="module")
def groups():
    return support.supported_names()


def test_every_name_exists(groups, tmp_path):
    """The compiler knows each listed name."""
    headers = "".join(f"#include <{name}>\n" for name in support.supported_headers())
    names = [name for listed in groups.values() for name in listed]
    assert len(names) > 500
    uses = "".join(f"using ::{name};\n" for name in dict.fromkeys(names) if name != "dim3")
    (tmp_path / "k.cpp").write_text(f"{compiler.CPU_PRELUDE}{headers}namespace listed {{\n{uses}}}\n")
    command = [*compiler._command(compiler.find_compiler(), checked=False), "-fsyntax-only", "k.cpp"]
    done = compiler._run(command, str(tmp_path))
    assert done.returncode == 0, done.stdout.decode()[:2000]


def test_a_new_header_is_listed(tmp_path, monkeypatch):
    folder = tmp_path / "include"
    shutil.copytree(compiler.INCLUDE, folder)
    for header in compiler.INCLUDE.parent.glob("*.h"):
        shutil.copy(header, tmp_path)
    (folder / "cuda_new.h").write_text(
        "/* New things. More. */\n__device__ inline int __new_thing() { return 1; }\n"
    )
    for module in compiler, support:
        monkeypatch.setattr(module, "INCLUDE", folder)
    assert support.supported_names()["New things"] == ("__new_thing",)


def test_everything_is_printed(groups, capsys):
    assert main(["support"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "Headers assert.h",
        "__shfl_down_sync",
        "cuda::barrier",
        "cuda::make_pipeline",
        "cuda::pipeline_role",
        "make_float4",
        "cooperative_groups::reduce",
        "ldmatrix ldu",
    ):
        assert words in out
    for reason, features in dialect.refused_features().items():
        assert f"Refused, because it {reason} {', '.join(features)}" in out
    assert not re.search(r"smemkit::|SMEMKIT_", out)


def test_names_are_looked_up(capsys):
    assert main(["support", "atomicAdd", "cuda::barrier", "thread_block", "cuda_fp16.h"]) == 0
    assert "cuda::barrier: cuda::barrier in shared memory\n" in capsys.readouterr().out
    assert main(["support", "atomicAdd", "tex9D"]) == 1
    assert "tex9D: not a supported name of CUDA" in capsys.readouterr().out


def test_without_a_compiler_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["support"]) == 2
    assert "install g++ or clang" in capsys.readouterr().err
