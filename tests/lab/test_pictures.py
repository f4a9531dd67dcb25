"""Pictures: titles state what is drawn, labels do not overlap, and nothing depends on colour alone."""

import itertools
from dataclasses import replace

import pytest

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle

from smemkit import lab
from smemkit.lab import pictures, style

pytestmark = pytest.mark.xdist_group("lab")
WARP = range(32)
PICTURES = {
    "bank map, 32-way": lambda: pictures.bank_map([128 * t for t in WARP]),
    "bank map, free": lambda: pictures.bank_map([4 * t for t in WARP]),
    "bank map, float4": lambda: pictures.bank_map([32 * t for t in WARP], 16, store=True),
    "sectors, stride 4": lambda: pictures.sectors([16 * t for t in WARP]),
    "sectors, stride 32": lambda: pictures.sectors([128 * t for t in WARP]),
    "sectors, misaligned": lambda: pictures.sectors([4 * t + 4 for t in WARP]),
    "tree, sequential": lambda: pictures.reduction_tree(16),
    "tree, divergent": lambda: pictures.reduction_tree(32, "divergent"),
    "tree, conflicting": lambda: pictures.reduction_tree(8, "conflicting"),
    "tile walk": lambda: pictures.tile_walk(8, 2, (1, 2)),
    "tile walk, 4 x 4": lambda: pictures.tile_walk(4, 2),
    "pipeline, 1": lambda: pictures.pipeline(1),
    "pipeline, 3": lambda: pictures.pipeline(3, 9),
    "ladder, transpose": lambda: pictures.ladder_chart("transpose", (8192, 8192)),
    "ladder, reduce": lambda: pictures.ladder_chart("reduce", (16_777_216,)),
    "ladder, matmul": lambda: pictures.ladder_chart("matmul", (4096, 4096, 4096)),
}


def shown_texts(figure):
    """Every text that is drawn, of ticks only those inside the axes' limits."""
    for axes in figure.axes:
        if not axes.axison:
            yield from axes.texts
            yield axes.title
            continue
        yield from axes.texts
        yield from (axes.title, axes.xaxis.label, axes.yaxis.label)
        if axes.get_legend():
            yield from axes.get_legend().get_texts()
        for axis in (axes.xaxis, axes.yaxis):
            for tick in axis._update_ticks():
                yield from (text for text in (tick.label1, tick.label2) if text.get_visible())
    yield from figure.texts
    if figure._suptitle:
        yield figure._suptitle


def overlaps(figure):
    """The pairs of texts whose boxes overlap by more than a pixel, and the texts outside of the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = {id(text): text for text in shown_texts(figure) if text.get_text().strip() and text.get_visible()}
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts.values()]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1:
            yield one, other
    width, height = canvas.get_width_height()
    for text, box in boxes:
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1:
            yield text, "the figure's edge"


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.covering(1, most=6)
def test_labels_of_pictures_do_not_overlap(name):
    figure = PICTURES[name]()
    assert list(overlaps(figure)) == []
    assert figure._suptitle.get_text()


@pytest.mark.covering(1, most=4)
def test_labels_of_experiments_do_not_overlap(experiment):
    figure = experiment.plot()
    assert list(overlaps(figure)) == []
    title = " ".join(figure._suptitle.get_text().split())
    if experiment.name not in ("matmul", "async_copy"):  # these have titles of their own
        assert experiment.verdict.startswith(title)


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
def test_overlaps_are_found():
    figure = style.figure("A title", 4, 3)
    axes = figure.subplots()
    axes.text(0.5, 0.5, "one label")
    axes.text(0.51, 0.5, "another")
    axes.text(0.9, 0.2, 30 * "too long ")
    found = list(overlaps(figure))
    assert ("one label", "another") in found
    assert any(other == "the figure's edge" for _, other in found)


def test_titles_state_what_is_drawn():
    def title(figure):
        return " ".join(figure._suptitle.get_text().split())

    assert title(PICTURES["bank map, 32-way"]()) == "32-way bank conflict: 32 wavefronts where 1 would do"
    assert title(PICTURES["bank map, free"]()) == "No bank conflict: 1 wavefront"
    assert title(PICTURES["bank map, float4"]()) == "2-way bank conflict: 8 wavefronts where 4 would do"
    assert "5 sectors of 32 bytes and uses 80 %" in title(PICTURES["sectors, misaligned"]())
    assert title(PICTURES["tree, sequential"]()).startswith("4 steps add 16 words: 8, 4, 2, 1 threads work")
    assert "16 words are used per element, and 8 loaded" in title(PICTURES["tile walk"]())
    assert title(PICTURES["pipeline, 1"]()).endswith("because no copy runs beside the work")
    assert "6 tiles in 8 units of time instead of 18" in title(pictures.pipeline(3))
    assert "from naive to vectorized 7.57 times as fast" in title(PICTURES["ladder, transpose"]())


@pytest.mark.covering(1, most=6)
def test_nothing_depends_on_colour_alone(experiment):
    """What costs is hatched, and the three plain colours differ in brightness."""
    from matplotlib.colors import to_rgb

    for axes in experiment.plot().axes:
        for patch in axes.patches:
            if isinstance(patch, Rectangle) and patch.get_facecolor()[:3] == to_rgb("tomato"):
                assert patch.get_hatch()
    grey = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b in map(to_rgb, ("teal", "tomato", "skyblue"))]
    assert all(abs(a - b) > 0.15 for a, b in itertools.combinations(grey, 2))


def test_refusals():
    with pytest.raises(ValueError, match="n: expected 2, 4, 8, 16 or 32, got 5"):
        pictures.reduction_tree(5)
    for tile in 3, 1, 0, -4, 16:
        with pytest.raises(ValueError, match="tile: expected a divisor of n, at least n / 6; got"):
            pictures.tile_walk(8, tile)
    with pytest.raises(ValueError, match=r"block: expected a row and a column from 0 to 1, got \(0, 2\)"):
        pictures.tile_walk(8, 4, (0, 2))
    with pytest.raises(ValueError, match="nothing is recorded for reduce of"):
        pictures.ladder_chart("reduce", (7,))


def test_transfers_that_are_only_recorded_are_drawn_beside_measured_ones():
    found = lab.transfers()
    rows = tuple(row | {"gbps": None if "pageable" in row["how"] else 50.0} for row in found.rows)
    (axes,) = replace(found, rows=rows).plot().axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert "to the host, pageable (recorded)" in labels
    assert "to the host, pinned" in labels
