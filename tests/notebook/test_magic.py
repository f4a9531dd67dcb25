"""%%smemkit in a notebook: variables, options, output and errors."""

from typing import ClassVar

import numpy as np
import pytest
from reports import RACE, Kernel, halo, report

import smemkit
from smemkit.notebook import magic

CELL = "__global__ void halo(const float *x, int n) {}\n"


class FakeRunnableKernel(Kernel):
    """A fake kernel whose launches can be called; they are recorded in `runs`."""

    runs: ClassVar = []

    def __getitem__(self, launch):
        return lambda *args: FakeRunnableKernel.runs.append((launch, args, smemkit.Device().name))


@pytest.fixture
def checks(monkeypatch):
    """Replaces smemkit.check by a function that records its arguments and returns `report`."""

    def check(target, *args, **keywords):
        check.calls.append((target, args, keywords))
        return check.report

    check.report, check.calls = report(), []
    monkeypatch.setattr(magic, "check", check)
    monkeypatch.setattr(magic, "Kernel", FakeRunnableKernel)
    Kernel.made.clear()
    FakeRunnableKernel.runs.clear()
    return check


LAUNCH = "--grid 4 --block 256 "


def test_a_launch_is_checked(checks):
    names = {"x": np.arange(5), "n": 5}
    line = LAUNCH + "--arg x --arg n --arg 'float[8]=ones' --option -DTILE=16 --seed 3 --blocks all"
    assert magic.run_cell(line, CELL, names) is checks.report
    ((_, arguments, keywords),) = checks.calls
    assert arguments[0] is names["x"]
    assert arguments[1] == 5
    np.testing.assert_array_equal(arguments[2], np.ones(8, np.float32))
    assert keywords == {"schedule": "serial", "seed": 3, "blocks": "all"}
    assert (Kernel.made[0].source, Kernel.made[0].options) == (CELL, ("-DTILE=16",))
    assert names["halo"] is Kernel.made[0]
    assert FakeRunnableKernel.runs == []


def test_a_cell_is_submitted_to_an_exercise():
    cell = "\n__global__ void add_one(const float *x, float *y, int n)\n{\n    y[0] = 1\n}\n"
    grade = magic.run_cell("--submit add-one", cell, {})
    assert not grade.passed
    assert grade.message.startswith("This does not compile. Line 4, `y[0] = 1`")  # 1 is the line of %%smemkit
    with pytest.raises(
        ValueError, match="--submit: expected no other option, because add-one has its own launches"
    ):
        magic.run_cell("--submit add-one --grid 4", cell, {})
    with pytest.raises(ValueError, match="name: expected an exercise such as"):
        magic.run_cell("--submit nothing-like-it", cell, {})


def test_without_a_grid_the_cell_is_compiled(checks):
    names = {}
    assert magic.run_cell("--name twice", CELL, names) is None
    assert names == {"twice": Kernel.made[0]}
    assert checks.calls == []


def test_each_of_several_kernels_becomes_a_variable(checks, monkeypatch):
    monkeypatch.setattr(Kernel, "names", ("a", "b"), raising=False)
    monkeypatch.setattr(Kernel, "__init__", lambda self, *_, **__: setattr(self, "name", None))
    monkeypatch.setattr(FakeRunnableKernel, "__getitem__", lambda self, name: f"kernel {name}")
    names = {}
    magic.run_cell("", CELL, names)
    assert names == {"a": "kernel a", "b": "kernel b"}


@pytest.mark.parametrize(("name", "variable"), [("scale<float, 32>", "scale"), ("a::b<c::d>", "b"), ("k", "k")])
def test_the_variable_of_a_template(checks, name, variable):
    names = {}
    magic.run_cell(f"--kernel '{name}'", CELL, names)
    assert list(names) == [variable]


def test_run_launches_it(checks):
    x = np.arange(5)
    magic.run_cell(LAUNCH + "--arg x --run --device cpu --shared 64", CELL, {"x": x})
    (((grid, block, shared), (argument,), device),) = FakeRunnableKernel.runs
    assert (grid, block, shared, device) == ((4,), (256,), 64, "cpu")
    assert argument is x


def test_run_does_not_launch_a_faulty_kernel(checks, capsys):
    checks.report = report(halo([RACE]))
    assert magic.run_cell(LAUNCH + "--run", CELL, {}) is checks.report
    assert FakeRunnableKernel.runs == []
    assert "not run, because the check found a fault" in capsys.readouterr().err


def test_help_is_shown(checks, capsys):
    assert magic.run_cell("--help", CELL, {}) is None
    assert "--arg ARG" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LAUNCH + "--arg y", "--arg y: expected an array TYPE[SHAPE]"),
        (LAUNCH + "--arg x.size", "--arg x.size: expected an array"),
        (LAUNCH + "--arg x[0]", "unknown type 'x'; expected one of C's"),
        (LAUNCH + "--arg 'x", "No closing quotation"),
        (LAUNCH + "--nonsense", "unrecognized arguments: --nonsense"),
        (LAUNCH + "--schedule parallel", "invalid choice: 'parallel'"),
        (LAUNCH + "--device cpu", "--device: says where --run launches the kernel"),
        (LAUNCH + "--name 'a b'", "--name: expected the name of a variable, got 'a b'"),
        ("--grid 4", "--block: expected the number of threads in a block"),
        ("--block 4", "--block: a launch needs --grid as well"),
        ("--arg x", "--arg: a launch needs --grid as well"),
        *(
            (option, f"{option.split()[0]}: a launch needs --grid as well")
            for option in ("--run", "--shared 64", "--cluster 2", "--schedule random", "--seed 1", "--blocks all")
        ),
        ("--device cpu", "--device: a launch needs --grid as well"),
    ],
)
def test_invalid_lines_are_rejected(checks, line, message):
    with pytest.raises(ValueError) as error:
        magic.run_cell(line, CELL, {"x": np.arange(5)})
    assert message in str(error.value)
    assert checks.calls == []


# ---- in IPython ----


@pytest.fixture
def shell(monkeypatch, tmp_path):
    testing = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell = testing.InteractiveShell()
    shell.run_line_magic("load_ext", "smemkit")
    return shell


def test_the_cell_magic(checks, shell):
    shell.user_ns["x"] = np.arange(5)
    assert shell.run_cell_magic("smemkit", LAUNCH + "--arg x", CELL) is checks.report
    assert checks.calls[0][1][0] is shell.user_ns["x"]
    assert isinstance(shell.user_ns["halo"], FakeRunnableKernel)


def test_the_report_is_the_cells_value(checks, shell):
    result = shell.run_cell(f"%%smemkit {LAUNCH}\n{CELL}")
    assert result.result is checks.report
    shown, _ = shell.display_formatter.format(result.result)
    assert shown["text/plain"] == str(checks.report)
    assert shown["text/html"].startswith('<div class="smk">')


def test_errors_have_no_traceback(checks, shell, capsys):
    result = shell.run_cell(f"%%smemkit {LAUNCH} --arg y\n{CELL}")
    assert not result.success
    captured = capsys.readouterr()
    assert "UsageError: %%smemkit: --arg y: expected an array" in captured.out + captured.err
    assert "Traceback" not in captured.out + captured.err


@pytest.mark.parametrize(
    "cell", ["%%smemkit --help", "%%smemkit --help\n", "\n%%smemkit -h\n\n", "%smemkit --help"]
)
def test_help_needs_no_cell(shell, capsys, cell):
    result = shell.run_cell(cell)
    assert result.success
    assert "usage: %%smemkit" in (out := capsys.readouterr().out)
    assert "--arg ARG" in out and "-I FOLDER" in out


@pytest.mark.parametrize("cell", ["%%smemkit\n", "%%smemkit --grid 4 --block 256", "%smemkit --grid 4"])
def test_a_magic_without_a_cell_says_so(checks, shell, capsys, cell):
    assert not shell.run_cell(cell).success
    captured = capsys.readouterr()
    assert "UsageError" in captured.out + captured.err
    assert Kernel.made == []


@pytest.mark.parametrize("above", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("below", ["", "\n\n"])
def test_line_numbers_are_the_editors(checks, shell, above, below):
    """Line 1 of the editor is that of %%smemkit, or above it: the source has as many empty lines."""
    cell = f"{above}%%smemkit --name k\n{CELL}{below}"
    assert shell.run_cell(cell).success
    (kernel,) = Kernel.made
    at = {text: number for number, text in enumerate(kernel.source.split("\n"), 1) if text.strip()}
    assert at == {text: number for number, text in enumerate(cell.split("\n"), 1) if text.startswith("__global__")}


def test_a_compile_error_names_the_editors_line(shell, capsys):
    shell.run_cell("\n%%smemkit\n__global__ void k(float *x)\n{\n    *x = zz;\n}\n")
    captured = capsys.readouterr()
    assert "kernel.cu:5: 'zz' was not declared" in captured.out + captured.err


def test_compiler_options_are_spelt_as_compilers_take_them(checks):
    magic.run_cell("-I inc -DTILE=16 --std c++20", CELL, {})
    assert Kernel.made[0].options == ("-Iinc", "-DTILE=16", "-std=c++20")
