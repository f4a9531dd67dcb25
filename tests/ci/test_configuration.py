"""smemkit.toml: what it says, and the messages where it says something else."""

import re

import pytest

from smemkit.ci.configuration import read_configuration
from smemkit.ci.results import Check

LAUNCH = 'file = "k.cu"\ngrid = 4\nblock = [16, 16]\n'


def read(tmp_path, text):
    path = tmp_path / "smemkit.toml"
    path.write_text(text)
    return read_configuration(path)


def test_a_launch(tmp_path):
    text = f"""[[check]]\n{LAUNCH}
    kernel = "halo<float, 2>"
    shared = 1024
    args = ["float[16]=zeros", 1024, -0.5, true, "x.npy"]
    blocks = "all"
    schedule = "random"
    seed = 7
    fail_on = ["errors", "conflict>=8"]
    include = ["include", "/opt/include"]
    define = "TILE=16"
    std = "c++20"
    options = ["-Ilib", "-UDEBUG"]
    """
    (found,), baseline = read(tmp_path, text)
    assert baseline is None
    assert found == Check(
        file=str(tmp_path / "k.cu"),
        kernel="halo<float, 2>",
        grid="4",
        block="16,16",
        shared=1024,
        arg=("float[16]=zeros", "1024", "-0.5", "true", "x.npy"),
        option=(
            *(f"-I{tmp_path}/include", "-I/opt/include", "-DTILE=16", "-std=c++20"),
            *(f"-I{tmp_path}/lib", "-UDEBUG"),
        ),
        blocks="all",
        schedule="random",
        seed=7,
        fail_on="errors,conflict>=8",
        folder=str(tmp_path),
        origin=f"{tmp_path}/smemkit.toml: check 1",
    )


def test_defaults_are_of_every_check_that_does_not_say_otherwise(tmp_path):
    text = '[defaults]\ngrid = "2,2"\nblock = 32\nblocks = 3\nfail_on = "race"\nbaseline = "known.json"\n'
    text += '[[check]]\nfile = ["a.cu", "b.cu"]\n[[check]]\nfile = "c.cu"\ngrid = 1\nfail_on = "none"\n'
    checks, baseline = read(tmp_path, text)
    assert baseline == str(tmp_path / "known.json")
    assert [(check.file[-4:], check.grid, check.block, check.blocks, check.fail_on) for check in checks] == [
        ("a.cu", "2,2", "32", "3", "race"),
        ("b.cu", "2,2", "32", "3", "race"),
        ("c.cu", "1", "32", "3", "none"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[check]\n", "smemkit.toml: Expected"),
        ("", "expected at least one [[check]] with a file, a grid and a block"),
        ("[check]\n" + LAUNCH, "check: expected a table [[check]] per launch; defaults go into [defaults]"),
        ("default = 1", "unknown key 'default'; did you mean defaults?"),
        ("defaults = 1\n[[check]]\n" + LAUNCH, "defaults: expected a table, got 1"),
        ("[defaults]\nfile = 'k.cu'\n[[check]]\n" + LAUNCH, "defaults: unknown key 'file'"),
        ("[defaults]\nbaseline = 3\n[[check]]\n" + LAUNCH, "defaults: baseline: expected a string, got 3"),
        ("[[check]]\ngrid = 1\nblock = 1", "check 1: file: expected the path of a .cu file, got nothing"),
        ("[[check]]\nfile = 'k.cu'\nblock = 1", "check 1: grid: expected numbers, such as grid = 4"),
        ("[[check]]\nfile = 'k.cu'\ngrid = 1", "check 1: block: expected numbers, such as block = 4"),
        ("[[check]]\nfile = 3", "check 1: file: expected a string or a list of strings, got 3"),
        (f"[[check]]\n{LAUNCH}[[check]]\n{LAUNCH}gird = 4", "check 2: unknown key 'gird'; did you mean grid?"),
        (f"[[check]]\n{LAUNCH}xyz = 4", "check 1: unknown key 'xyz'; expected one of file, kernel, args, grid,"),
        (
            "[[check]]\nfile = 'k.cu'\ngrid = 0",
            "grid: expected one to three numbers above 0, such as 4 or [4, 2], got",
        ),
        ("[[check]]\nfile = 'k.cu'\ngrid = true", "grid: expected one to three numbers above 0"),
        (f"[[check]]\n{LAUNCH}shared = -1", "shared: expected a whole number, 0 or more, got -1"),
        (f"[[check]]\n{LAUNCH}args = 'float[4]'", "args: expected a list such as"),
        (f"[[check]]\n{LAUNCH}args = [[1]]", "args: expected a list such as"),
        (f"[[check]]\n{LAUNCH}blocks = 0", 'blocks: expected "auto", "all" or a number above 0, got 0'),
        (
            f"[[check]]\n{LAUNCH}schedule = 'fast'",
            "schedule: expected one of serial, lockstep, random, got 'fast'",
        ),
        (f"[[check]]\n{LAUNCH}fail_on = 'rase'", "fail_on: expected a list of errors, warnings,"),
        (f"[[check]]\n{LAUNCH}fail_on = 3", "fail_on: expected a string or a list of strings, got 3"),
        (f"[[check]]\n{LAUNCH}kernel = 3", "kernel: expected a string, got 3"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path))}/smemkit.toml: .*") as error:
        read(tmp_path, text)
    assert message in str(error.value)
