"""`smemkit check` on files: smemkit.toml, processes, baselines, pytest's plugin, the hook and the action."""

import json
import multiprocessing
import os
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import entry_points

import pytest
from cases import ROOT, run_python
from reports import RACE, halo, report, unpadded

from smemkit.__main__ import main
from smemkit.checker import figures
from smemkit.ci import command, parallel, results
from smemkit.ci.results import Check, Outcome

RACY = """\
__global__ void reverse(float *x)
{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}
"""
FINE = RACY.replace("    x[threadIdx.x] =", "    __syncthreads();\n    x[threadIdx.x] =")
TOML = """\
[defaults]
grid = 1
block = 64
args = ["float[64]"]

[[check]]
file = "src/racy.cu"

[[check]]
file = "src/fine.cu"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a smemkit.toml and two kernels, one of them with a race."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "racy.cu").write_text(RACY)
    (tmp_path / "src" / "fine.cu").write_text(FINE)
    (tmp_path / "smemkit.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_launches_of_smemkit_toml(project, capsys):
    assert main(["check", "--jobs", "1"]) == 1
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "✗ 1 finding that fails in 2 launches of 2 files, 2 blocks checked"
    assert any(
        re.match(r"✗ src/racy.cu, racy\[1, 64\]: 1 fault.*: race \(RAW\) at src/racy.cu:5", x) for x in lines
    )
    assert any(line.startswith("✓ src/fine.cu, fine[1, 64]: no faults") for line in lines)


def test_a_picture_of_all_launches(project, monkeypatch):
    pytest.importorskip("matplotlib")
    shown = []
    monkeypatch.setattr(command, "plot", lambda launches: shown.extend(launches) or figures.plot(launches))
    assert main(["check", "--jobs", "1", "--plot", "counts.png"]) == 1
    assert [launch.kernel for launch in shown] == ["reverse", "reverse"]
    assert (project / "counts.png").read_bytes().startswith(b"\x89PNG")
    known = ["--baseline", "known.json", "--update-baseline"]
    assert main(["check", "--jobs", "1", "--plot", "known.png", *known]) == 0
    assert (project / "known.png").read_bytes().startswith(b"\x89PNG")


def test_files_select_launches(project, capsys):
    assert main(["check", "src/fine.cu", "--config", "smemkit.toml"]) == 0
    assert capsys.readouterr().out.startswith("✓ no faults")
    assert main(["check", "src/none.cu", "--config", "smemkit.toml"]) == 2
    assert "src/none.cu: smemkit.toml has no [[check]] of this file" in capsys.readouterr().err


def test_paths_are_relative_to_smemkit_toml(project, capsys, monkeypatch):
    monkeypatch.chdir(project.parent)
    assert main(["check", "--config", f"{project.name}/smemkit.toml", "--jobs", "1"]) == 1
    assert f"race (RAW) at {project.name}/src/racy.cu:5" in capsys.readouterr().out


def test_other_kernels_that_do_not_compile_are_named(project, capsys):
    (project / "two.cu").write_text(FINE + "__global__ void broken(int *x) { *x = unknown; }\n")
    launch = ["--grid", "1", "--block", "64", "--arg", "float[64]"]
    assert main(["check", "two.cu", "--kernel", "reverse", *launch]) == 0
    assert "not compiled, and not needed: broken: two.cu:8: 'unknown'" in capsys.readouterr().out
    assert main(["check", "two.cu", "--kernel", "broken", *launch[:-1], "int[1]"]) == 2
    assert "'unknown' was not declared" in capsys.readouterr().err


def test_a_file_that_does_not_compile_always_fails(project, capsys):
    (project / "src" / "fine.cu").write_text(FINE.replace("x[threadIdx.x];", "unknown;"))
    command = ["check", "--jobs", "1", "--baseline", "known.json"]
    assert main([*command, "--update-baseline"]) == 0
    assert main(command) == 1
    assert main(["check", "--jobs", "1", "--fail-on", "shuffle"]) == 1
    assert "'unknown' was not declared" in capsys.readouterr().out


def test_wrong_options_of_an_operation_exit_with_2(capsys):
    assert main(["check", "--op", "reduce", "--shape", "8", "--tile", "4"]) == 2
    assert "tile" in capsys.readouterr().err


def test_a_part_of_the_checks_is_no_baseline(project, capsys):
    command = ["check", "src/fine.cu", "--config", "smemkit.toml", "--baseline", "known.json", "--update-baseline"]
    assert main(command) == 2
    assert "--update-baseline: expected no FILE" in capsys.readouterr().err


def test_a_comment_allows_the_race(project, capsys):
    text = RACY.replace("63 - threadIdx.x];", "63 - threadIdx.x];  // smemkit: allow(race) for this test")
    (project / "src" / "racy.cu").write_text(text)
    assert main(["check", "--jobs", "1"]) == 0
    assert "1 fault allowed by comments" in capsys.readouterr().out


# ---- with fake checks ----


@pytest.fixture
def fakes(project, monkeypatch):
    """Replaces the checks: racy.cu has a race, fine.cu a bank conflict, others are not there. Records them."""
    reports = {"racy.cu": report(halo([RACE])), "fine.cu": report(unpadded())}

    def run_check(asked):
        run_check.asked.append(asked)
        found = reports.get(asked.file.rpartition("/")[2])
        problem = "" if found else f"{asked.file}: no such file"
        return Outcome(asked, found, problem, findings=tuple(results.findings(found)) if found else ())

    run_check.asked = []
    monkeypatch.setattr(parallel, "run_check", run_check)
    return run_check


def test_a_baseline_makes_findings_known(fakes, capsys):
    line = ["check", "--jobs", "1", "--baseline", "known.json"]
    assert main([*line, "--update-baseline"]) == 0
    assert capsys.readouterr().out == "known.json: 1 known findings written\n"
    assert main(line) == 0
    assert "1 finding known by the baseline" in capsys.readouterr().out
    assert main([*line, "--fail-on", "errors,conflict"]) == 1
    assert main([*line, "--fail-on", "none"]) == 0
    assert "1 finding of the baseline gone" in capsys.readouterr().out


def test_a_baseline_of_misuse_is_not_written(fakes, project, capsys):
    line = ["check", "none.cu", "--grid", "1", "--block", "1", "--baseline", "known.json", "--update-baseline"]
    assert main(line) == 2
    assert not (project / "known.json").exists()
    assert "none.cu: no such file" in capsys.readouterr().err


def test_options_replace_those_of_smemkit_toml(fakes):
    line = ["--blocks", "all", "--seed", "3", "--schedule", "random", "-DX=1", "--fail-on", "race"]
    main(["check", "--jobs", "1", *line])
    for check in fakes.asked:
        assert (check.blocks, check.seed, check.schedule, check.option, check.fail_on) == (
            "all",
            3,
            "random",
            ("-DX=1",),
            "race",
        )
        assert (check.grid, check.block, check.arg) == ("1", "64", ("float[64]",))


@pytest.mark.parametrize("name", ["kernel", "grid", "block", "cluster", "shared", "arg"])
def test_launches_are_either_here_or_there(fakes, capsys, name):
    assert main(["check", "--config", "smemkit.toml", f"--{name}", "1"]) == 2
    assert f"--{name}: goes with a FILE.cu and no --config; smemkit.toml has its own" in capsys.readouterr().err


def test_several_files_have_one_launch(fakes):
    assert main(["check", "src/racy.cu", "src/fine.cu", "--grid", "4", "--block", "256", "--jobs", "1"]) == 1
    assert [(check.file, check.grid) for check in fakes.asked] == [("src/racy.cu", "4"), ("src/fine.cu", "4")]


def test_output_goes_to_a_file_and_the_text_to_the_terminal(fakes, project, capsys):
    assert main(["check", "--jobs", "1", "--format", "sarif", "--output", "out.sarif"]) == 1
    assert json.loads((project / "out.sarif").read_text())["version"] == "2.1.0"
    assert capsys.readouterr().out.startswith("✗ 1 finding that fails")


def test_mistakes_in_smemkit_toml_are_reported_in_its_words(project, capsys):
    (project / "smemkit.toml").write_text(TOML.replace('["float[64]"]', '["floot[64]"]'))
    assert main(["check", "--jobs", "1"]) == 2
    error = capsys.readouterr().err
    assert "smemkit: smemkit.toml: check 1, src/racy.cu: args: 'floot[64]': unknown type 'floot'" in error
    assert main(["check", "--config", "none.toml"]) == 2
    assert "none.toml" in capsys.readouterr().err


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in ("[[check]]", "// smemkit: allow(race)", "Exit status: 0", "conflict>=8", "-I FOLDER"):
        assert words in text


def test_version(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert re.fullmatch(r"smemkit \d+\.\d+\S*\n", capsys.readouterr().out)


# ---- several processes ----


def test_outcomes_are_in_the_order_of_the_checks(tmp_path):
    """In two processes, which refuse the files: they are not there."""
    checks = [Check(str(tmp_path / f"{number % 3}.cu"), grid=str(number), block="1") for number in range(1, 8)]
    assert list(parallel.run_checks(checks, 2)) == [results.run_check(check) for check in checks]


def test_a_process_that_dies_is_reported(monkeypatch):
    def run_check(asked):
        if asked.file == "deadly.cu":
            os._exit(1)
        return Outcome(asked, None, "refused")

    forks = multiprocessing.get_context("fork")  # the processes have this run_check
    monkeypatch.setattr(parallel, "_pool", lambda jobs: ProcessPoolExecutor(jobs, forks))
    monkeypatch.setattr(parallel, "run_check", run_check)
    checks = [Check(name, grid="1", block="1") for name in ("a.cu", "deadly.cu", "b.cu")]
    problems = [outcome.problem for outcome in parallel.run_checks(checks, 2)]
    assert problems == ["refused", "deadly.cu: the process that checked deadly[1, 1] died", "refused"]


# ---- pytest, pre-commit, GitHub Actions ----


def run_pytest(*arguments):
    """Runs pytest with the plugin and no others, which would take a second to import."""
    words = ["-m", "pytest", "-p", "pytest_smemkit", "-p", "no:cacheprovider", *arguments]
    return run_python(*words, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", timeout=120)


def test_the_pytest_plugin(project):
    done = run_pytest("-rA", "-m", "smemkit", str(project))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"PASSED .*smemkit.toml::fine.cu: fine\[1, 64\]", done.stdout)
    assert re.search(r"FAILED .*smemkit.toml::racy.cu: racy\[1, 64\]", done.stdout)
    assert re.search(r"✗ 1 fault.*: race \(RAW\) at\s", done.stdout)
    assert re.search(r"▸ 4 │ +s\[threadIdx.x\] = x\[threadIdx.x\];", done.stdout)
    assert "Traceback" not in done.stdout


def test_the_pytest_plugin_names_mistakes(project):
    (project / "smemkit.toml").write_text(TOML + "gird = 4\n")
    done = run_pytest(str(project / "smemkit.toml"))
    assert done.returncode == 2
    assert "check 2: unknown key 'gird'; did you mean grid?" in done.stdout


def test_pytest_finds_the_plugin():
    (point,) = {point for point in entry_points(group="pytest11") if point.name == "smemkit"}
    assert point.value == "pytest_smemkit"


def test_the_plugin_imports_smemkit_only_where_it_is_needed():
    """pytest loads it at the start of every run."""
    done = run_python("-c", "import sys, pytest_smemkit; print('smemkit' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_the_pre_commit_hook(fakes, monkeypatch):
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language", "files"} <= set(hook)
    program, *words = hook["entry"].split()
    assert (program, hook["language"], hook["pass_filenames"]) == ("smemkit", "python", False)
    assert main([*words, "--jobs", "1"]) == 1
    for name, matches in {"a/halo.cu": 1, "x.cuh": 1, "smemkit.toml": 1, "a/smemkit.toml": 1, "x.cpp": 0}.items():
        assert bool(re.search(hook["files"], name)) == matches


@pytest.fixture
def program(tmp_path):
    """A folder with the program smemkit, which writes its arguments and fails."""
    path = tmp_path / "bin" / "smemkit"
    path.parent.mkdir()
    path.write_text(f'#!{sys.executable}\nimport sys\nprint("ran", sys.argv[1:])\nsys.exit(1)\n')
    path.chmod(0o755)
    return path.parent


def test_the_action(program, tmp_path):
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    assert all({"name", "run", "shell"} <= set(step) for step in action["runs"]["steps"])
    step = action["runs"]["steps"][1]
    inputs = {name: field["default"] for name, field in action["inputs"].items()}
    inputs |= {"arguments": "--fail-on\nconflict>=8\n-DNAME=a b", "sarif": "out.sarif"}
    values = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: inputs[m[1]], text)
        for name, text in step["env"].items()
    }
    environment = os.environ | values | {"PATH": f"{program}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], env=environment, capture_output=True, text=True)
    words = ["check", "--config", "smemkit.toml", "--fail-on", "conflict>=8", "-DNAME=a b"]
    assert (done.returncode, done.stdout) == (1, f"ran {[*words, '--format', 'github']}\n"), done.stderr


def test_a_file_of_several_kernels_needs_a_name(project, capsys):
    (project / "two.cu").write_text(
        "__global__ void a(int *x) {}\ntemplate <class T> __global__ void b(T *x) {}\n"
    )
    assert main(["check", "two.cu", "--grid", "1", "--block", "1", "--arg", "int[1]"]) == 2
    assert capsys.readouterr().err == "smemkit: --kernel: expected one of two.cu's kernels, a, b\n"


def test_only_the_checked_build_is_compiled(project, monkeypatch, tmp_path):
    """A check in a shell takes half the time: a kernel's plain build is for launches."""
    from smemkit.user_kernel import cpu_module

    built, compile_library = [], cpu_module.compile_library

    def recorded(*arguments, checked, **keywords):
        built.append(checked)
        return compile_library(*arguments, checked=checked, **keywords)

    monkeypatch.setattr(cpu_module, "compile_library", recorded)
    assert main(["check", "src/fine.cu", "--config", "smemkit.toml"]) == 0
    assert built == [True]


def test_a_check_imports_what_it_needs_only(tmp_path):
    """The other commands, and what only their output needs, would take as long as a check."""
    (tmp_path / "k.cu").write_text("__global__ void k(int *x) { x[threadIdx.x] = 1; }")
    words = ["check", str(tmp_path / "k.cu"), "--block", "32", "--arg", "int[32]"]
    code = f"import sys\nfrom smemkit.__main__ import main\nmain({words})\nprint(*sys.modules)"
    loaded = set(run_python("-c", code, SMEMKIT_DEVICE="cpu").stdout.split())
    assert "smemkit.ci.command" in loaded
    heavy = {"smemkit.bench", "smemkit.lab", "rich.console", "multiprocessing", "tomllib", "xml.etree"}
    assert not loaded & heavy
