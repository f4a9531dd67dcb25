"""The lessons: what each notebook has, the index, and the gallery of mistakes."""

import json
import re
from pathlib import Path

import pytest

from smemkit import lab

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))
SUBMIT = re.compile(r"%%smemkit --submit (\S+)\n")
each_lesson = pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in LESSONS])


def cells(path, kind="code"):
    """Source and outputs of the cells of a kind."""
    found = json.loads(path.read_text())["cells"]
    return [("".join(c["source"]), c.get("outputs", [])) for c in found if c["cell_type"] == kind]


def output_text(outputs):
    return "".join("".join(out.get("text") or out.get("data", {}).get("text/plain", "")) for out in outputs)


def submitted(path):
    """The exercises of a lesson, with their sources and outputs."""
    found = [(SUBMIT.match(source), source, outputs) for source, outputs in cells(path)]
    return [(match[1], source[match.end() :], outputs) for match, source, outputs in found if match]


@each_lesson
def test_a_lesson_has_its_parts(path):
    text = "\n".join(source for source, _ in cells(path, "markdown"))
    assert text.startswith("# ")
    assert "predict" in text.lower()
    assert "](https://" in text
    kernels = [output_text(out) for source, out in cells(path) if re.match(r"%%smemkit (?!--submit)", source)]
    assert kernels
    assert re.match(r"<Device (cpu|cuda:0: NVIDIA H200)\b.*, smemkit \d", output_text(cells(path)[0][1]))
    assert all("Traceback" not in output for output in kernels)
    assert all(out.get("output_type") != "error" for _, outputs in cells(path) for out in outputs)
    assert any(shown.startswith("✓ no faults") for shown in kernels)


@each_lesson
def test_links_to_manuals_name_a_version(path):
    """Newer manuals have their chapters elsewhere, so that a link without a version would lose its anchor."""
    links = re.findall(
        r"https://docs\.nvidia\.com/[^)\s]*", "\n".join(source for source, _ in cells(path, "markdown"))
    )
    assert all(
        re.match(r"https://docs\.nvidia\.com/cuda/archive/[\d.]+/[\w-]+/index\.html#[\w-]+$", x) for x in links
    )


@each_lesson
def test_exercise_cells_hold_the_template_and_its_grade(path):
    for name, source, outputs in submitted(path):
        exercise = lab.exercise(name)
        assert source.strip() == exercise.template.strip()
        assert output_text(outputs).startswith(f"✗ {name}: not yet")
        assert any(exercise.task in text for text, _ in cells(path, "markdown"))


def test_every_exercise_is_in_a_lesson():
    assert {name for path in LESSONS for name, _, _ in submitted(path)} == {
        exercise.name for exercise in lab.exercises()
    }
    assert len(LESSONS) >= 15


def test_experiments_named_in_lessons_exist():
    called = {n for path in LESSONS for source, _ in cells(path) for n in re.findall(r"\blab\.(\w+)\(\)", source)}
    assert called <= {*lab.EXPERIMENTS, "exercises"}
    assert len(called) >= 15


def test_the_index_lists_each_lesson_with_its_exercises():
    index = (NOTEBOOKS / "README.md").read_text()
    for path in LESSONS:
        (row,) = (line for line in index.splitlines() if f"({path.name})" in line)
        for name in {name for name, _, _ in submitted(path)} - {"second-launch"}:
            assert name in row
        for name in re.findall(r"`(\w+)`", row):
            assert name in lab.EXPERIMENTS


def test_the_gallery_has_every_faulty_kernel():
    from tools.gallery import PAGE, pairs, repair, shown_source

    page, kernels = PAGE.read_text(), list(pairs())
    for faulty, fixed in kernels:
        (mistake, source), (right, fixed_source) = shown_source(faulty), shown_source(fixed)
        for part in (mistake, source, right, repair(source, fixed_source)):
            assert part in page, faulty.path
    assert page.count("```text\n✗ ") == len(kernels)
