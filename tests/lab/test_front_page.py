"""The front page: its pictures are those that the tool draws, and its report is what `check` finds."""

import re
import runpy
from pathlib import Path

import pytest

import smemkit

pytest.importorskip("matplotlib")
ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tests/tools/front_page.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def texts(file: Path) -> list[str]:
    """The texts of a drawing, in order."""
    return re.findall(r"<text[^>]*>([^<]*)", file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "roofline.svg")) for name in TOOL["PICTURES"]]
)
def test_pictures_are_up_to_date(name, tmp_path):
    TOOL["draw"](name, tmp_path / name)
    assert texts(tmp_path / name), "a drawing without text"
    assert texts(tmp_path / name) == texts(TOOL["FOLDER"] / name), "run python tests/tools/front_page.py"
    assert f"docs/pictures/{name}" in README


def test_the_first_kernel_has_the_race_and_the_conflict_that_the_page_shows():
    source = re.search(r"```cuda\n(.*?)```", README, re.DOTALL).group(1)
    k = smemkit.Kernel(source)
    x = smemkit.zeros((32, 32), "float32", device="cpu")
    report = smemkit.check(k[1, (32, 32)], x, smemkit.zeros((32, 32), "float32", device="cpu"))
    (fault,) = report.faults
    assert (fault.kind, fault.hazard, fault.line) == ("race", "RAW", 5)
    assert fault.fix in " ".join(README.split())
    assert [line.degree for line in report.lines if line.conflicts] == [32]
    assert "32-way bank conflict" in README
