"""``smemkit lab``."""

import json
import subprocess
import sys

import pytest

from smemkit import lab
from smemkit.__main__ import main

pytestmark = pytest.mark.xdist_group("lab")


def test_list(capsys):
    assert main(["lab"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for name, function in lab.EXPERIMENTS.items():
        assert f"\n{name} " in out
        assert " ".join(function.__doc__.split()[:3]) in out
    assert main(["lab", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["experiments"]) == list(lab.EXPERIMENTS)


def test_one(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    picture, content = tmp_path / "a.png", tmp_path / "a.json"
    assert main(["lab", "occupancy", "--device", "cpu", "--plot", str(picture), "--json", str(content)]) == 0
    out = capsys.readouterr().out
    assert "→ The multiprocessor is full" in out and "\x1b" not in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(content.read_text())["name"] == "occupancy"
    assert main(["lab", "occupancy", "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "smemkit.experiment"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bank"], "smemkit: lab: there is no experiment 'bank'; did you mean banks?"),
        (["xyzzy"], "smemkit: lab: there is no experiment 'xyzzy'; `smemkit lab` lists them"),
        (["banks", "--device", "cuda:99"], "smemkit: device: 'cuda:99' is not available: "),
        (["--plot", "x.png"], "smemkit: --plot: expected the NAME of an experiment"),
    ],
)
def test_refusals(capsys, arguments, message):
    assert main(["lab", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["lab", "kernels", "info"])
@pytest.mark.covering(most=1)
def test_pipes_close_quietly(command, tmp_path):
    """A reader that ends early, such as `head -1`, causes no message."""
    done = subprocess.Popen(
        [sys.executable, "-m", "smemkit", command],
        cwd=tmp_path,  # outside the source tree because smemkit/ there need not be built
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    done.stdout.close()
    assert done.stderr.read() == ""
    assert done.wait() == 1


@pytest.mark.parametrize(("command", "key"), [("info", "devices"), ("kernels", "kernels")])
def test_json_of_lists(capsys, command, key):
    assert main([command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == f"smemkit.{command}"
    assert found[key]
