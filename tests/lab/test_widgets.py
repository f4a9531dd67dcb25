"""Pictures in steps: the static form, the widget, and its script."""

import json
import shutil
import subprocess

import pytest

pytest.importorskip("matplotlib")

from smemkit.lab import widgets

MADE = {
    "reduction": lambda: widgets.reduction_steps(8),
    "tiles": lambda: widgets.tile_steps(4, 2),
    "wavefronts": lambda: widgets.wavefront_steps([16 * t for t in range(32)]),
}
EXPECTED = {
    "reduction": ["4 threads at work: 0 to 3; 4 idle", "2 threads at work: 0, 1; 6 idle"],
    "tiles": ["columns 0 to 1 of A and rows 0 to 1 of B are loaded, and multiplied from shared memory"],
    "wavefronts": ["8 banks at work for lanes 0 to 7"],
}


@pytest.mark.parametrize("name", MADE)
def test_static_form(name):
    steps = MADE[name]()
    assert len(steps.frames) == len(steps.captions) > 1
    assert list(steps.captions[: len(EXPECTED[name])]) == EXPECTED[name]
    assert len(set(steps.frames)) == len(steps.frames)
    assert all(frame.startswith('<svg style="max-width: 100%') for frame in steps.frames)
    html = steps._repr_html_()
    assert html.count("<figure>") == html.count("<svg") == len(steps.frames)
    assert all(caption in html for caption in steps.captions)
    assert repr(steps).endswith(f"{len(steps.frames)} steps>")
    for loaded in ("<script", "src=", "url(http", "@import"):
        assert loaded not in html


def test_without_anywidget_the_static_form_is_shown(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    steps = MADE["tiles"]()
    assert set(steps._repr_mimebundle_()) == {"text/plain", "text/html"}
    with pytest.raises(ImportError, match=r"a widget needs anywidget: pip install 'smemkit\[lab\]'"):
        steps.widget()


def test_widget():
    pytest.importorskip("anywidget")
    steps = MADE["tiles"]()
    widget = steps.widget()
    assert (widget.frames, widget.captions, widget.step) == (list(steps.frames), list(steps.captions), 0)
    data, _ = steps._repr_mimebundle_()
    assert data["text/html"] == steps._repr_html_()
    assert "application/vnd.jupyter.widget-view+json" in data


def test_nothing_is_loaded_from_a_network():
    text = widgets.SCRIPT.read_text()
    assert not any(word in text for word in ("http", "fetch(", "import ", "XMLHttpRequest"))


PAGE = """
class Element {
  style = {};
  constructor(tag) { this.tag = tag; this.children = []; this.attributes = {}; this.listeners = {}; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, action) { this.listeners[name] = action; }
  append(...children) { this.children.push(...children); }
}
globalThis.document = { createElement: (tag) => new Element(tag) };
const values = { frames: ["<svg>a</svg>", "<svg>b</svg>", "<svg>c</svg>"], captions: ["A", "B", "C"], step: 0 };
let saves = 0;
const model = {
  get: (name) => values[name], set: (name, value) => { values[name] = value; },
  save_changes: () => saves++, on: () => {},
};
const el = new Element("div");
const { default: stepper } = await import(process.argv[1]);
stepper.render({ model, el });
const [controls, caption, picture] = el.children;
const [back, slider, next] = controls.children;
const seen = [];
const look = () =>
  seen.push([values.step, caption.textContent, picture.innerHTML, slider.value, back.disabled, next.disabled]);
look();
back.listeners.click(); look();
next.listeners.click(); look();
slider.value = "2"; slider.listeners.input(); look();
next.listeners.click(); look();
console.log(JSON.stringify({ seen, saves }));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_script_steps_through_the_frames(tmp_path):
    script = tmp_path / "stepper.mjs"
    script.write_text(widgets.SCRIPT.read_text())
    done = subprocess.run(
        ["node", "--input-type=module", "-e", PAGE, str(script)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert [step for step, *_ in found["seen"]] == [0, 0, 1, 2, 2]
    assert found["seen"][2][1:3] == ["2 of 3: B", "<svg>b</svg>"]
    assert [call[4:] for call in found["seen"]][1:4] == [[True, False], [False, False], [False, True]]
    assert found["saves"] == 4
