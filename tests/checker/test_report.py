"""The contents of a report: as text, as HTML, as a figure, as JSON."""

import copy
import json
import pickle
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from cases import ROOT, run_python
from reports import FAULTS, KERNEL, LANES, RACE, UNPADDED, fault, halo, number_of, report, unpadded
from rich.cells import cell_len

from smemkit.checker.faults import Fault
from smemkit.checker.launches import COUNTS_NOTE, LaunchReport
from smemkit.checker.lines import LineReport
from smemkit.checker.report import Report
from smemkit.measure.formats import format_count

ROW, COLUMN = number_of("tile[ty + j][tx] ="), number_of("= tile[tx][ty + j];")


def flat(text):
    """The text in one line, independent of its wrapping."""
    return " ".join(str(text).split())


# ---- text ----


def test_a_conflict_is_explained():
    text = str(report())
    assert flat(text).startswith(f"✓ no faults in 1,024 blocks; 32-way bank conflict at {UNPADDED}:{COLUMN} ")
    assert f" {COLUMN} │ out[(out_row + j) * rows + out_column] = tile[tx][ty + j];\n" in text
    assert "32-way: rows are 32 words apart, so a column lies in one bank; pad the row to 33" in flat(text)
    (row,) = (line.split() for line in text.split("\n") if "shared load" in line)
    assert row == ["!", "shared", "load", "tile", "32,768", "1,048,576", "1,015,808", "32"]
    (row,) = (line.split() for line in text.split("\n") if "global store" in line)
    assert row == ["global", "store", "out", "32,768", "4", "4"]
    assert "transpose_unpadded<float, 32>\n  grid 32 × 32, block 32 × 8, 4,096 bytes of shared memory" in text
    assert text.count(COUNTS_NOTE) == 1
    assert text.endswith("Checked in 123 ms.")


def test_numbers_are_aligned_with_their_headings():
    lines = str(report()).split("\n")
    (heading,) = (line for line in lines if "requests" in line)
    (row,) = (line for line in lines if line.lstrip("! ").startswith("shared load"))
    for name, number in (("requests", "32,768"), ("wavefronts", "1,048,576"), ("conflicts", "1,015,808")):
        assert heading.index(name) + len(name) == row.index(number) + len(number)


def test_race_shows_both_lines():
    text = str(report(halo([RACE])))
    assert text.startswith("✗ 1 fault in 4 blocks: race (RAW) at kernel.cu:10\n")
    assert "✗ race (RAW) at kernel.cu:10, s[3], block (0, 0, 0), seen 255 times\n" in text
    assert "Thread (4, 0, 0) reads s[3], which thread (3, 0, 0) wrote at line 6" in flat(text)
    assert re.search(r"▸  6 │ s\[threadIdx\.x\] = x\[i\];\n +│ ▴ thread \(3, 0, 0\) wrote\n", text)
    assert re.search(r"▸ 10 │ float left = s\[threadIdx\.x - 1\].*\n +│ ▴ thread \(4, 0, 0\) reads\n", text)
    assert "Put __syncthreads() between the two accesses" in flat(text)


@pytest.mark.parametrize(
    ("fault", "words"),
    list(
        zip(
            FAULTS,
            [
                ["race (RAW)", "RAW, read after write", "Put __syncthreads() between the two accesses"],
                [
                    "race (RAW, warp-synchronous)",
                    "outside of branches and loops that some threads do not enter",
                ],
                ["race (WAR)", "WAR, write after read", "thread (4, 0, 0) writes", "thread (3, 0, 0) read"],
                ["race (WAW)", "WAW, write after write", "Blocks run in any order", "use atomics for all"],
                [
                    "barrier divergence at kernel.cu:12, block (3, 0, 0)",
                    "128 of 256 threads wait",
                    "out of the branch",
                ],
                ["out of bounds at kernel.cu:6, x[1000]", "outside the array", "Guard the access, `if (i < n)`"],
                ["uninitialised read at kernel.cu:10, s[7]", "by chance be zeros", "write every element"],
                ["misaligned access at kernel.cu:10", "a multiple of its size", "4 floats for float4"],
                ["endless wait at kernel.cu, block", "The launch never ends", "Look at what the loop waits for"],
                ["trap at kernel.cu:14", "Assertion failed: left > 0.", "failed assert"],
            ],
            strict=True,
        )
    ),
    ids=lambda value: value.title if not isinstance(value, list) else "",
)
def test_every_fault_has_a_meaning_and_a_fix(fault, words):
    text = flat(report(halo([fault])))
    for word in words:
        assert word in text
    assert fault.meaning in text
    assert fault.fix in text
    if fault.line:
        assert f"▸ {fault.line}" in text or f"▸  {fault.line}" in text


def test_a_race_of_a_line_with_itself():
    race = fault("race", 13, other_line=13, hazard="WAW", threads=((1, 0, 0), (0, 0, 0)))
    text = flat(report(halo([race])))
    assert "◂ thread (1, 0, 0) writes, thread (0, 0, 0) wrote" in text
    assert "if (threadIdx.x == 0)" in race.fix


def test_a_race_between_blocks_names_both():
    race = replace(RACE, other_block=(1, 0, 0))
    text = flat(report(halo([race])))
    assert " thread (3, 0, 0) of block (1, 0, 0) wrote" in text
    assert " thread (4, 0, 0) of block (0, 0, 0) reads" in text
    assert "__syncthreads" not in race.fix


def test_advice_for_a_line_is_printed_once():
    line = replace(unpadded().lines[2], text="s[32 * t] += 1;")
    subject = report(unpadded(lines=(line, replace(line, access="store"))))
    assert str(subject).count("32-way: ") == 1
    assert subject._repr_html_().count("32-way: ") == 1


def test_a_race_between_two_files():
    race = replace(RACE, other_file="tile.h", other_line=3)
    text = flat(Report((halo([race]),), 1.0, {KERNEL: "a\n" * 20, "tile.h": "x\ny\nz = tile[0];\n"}))
    assert "▸ 3 │ z = tile[0]; ◂ thread (3, 0, 0) wrote" in text


def test_a_fault_without_source_text_shows_its_line():
    text = str(Report((halo([RACE]),), 1.0))
    assert "▸ 10 │ float left = s[threadIdx.x - 1]" in text


def test_long_fault_lists_are_shortened():
    text = str(report(halo([RACE] * 10 + [FAULTS[4]])))
    assert flat(text).startswith(
        "✗ 11 faults in 4 blocks: race (RAW) at kernel.cu:10, barrier divergence at kernel.cu:12 ✗ "
    )
    assert "✗ and 3 more faults: 2 × race (RAW), 1 × barrier divergence; report.faults has all" in flat(text)
    assert text.count("means  RAW") == 1


def test_launches_are_numbered():
    first = replace(unpadded(), kernel="first", lines=())
    text = str(report(first, replace(halo([RACE]), kernel="second")))
    assert "launch 1 of 2: first\n" in text
    assert "launch 2 of 2: second\n" in text
    assert "seen 255 times" in flat(text)
    assert "in second," in flat(text)
    assert "no access to shared or global memory was counted" in text


def test_number_of_checked_blocks():
    assert "; all blocks checked" in flat(report())
    assert "its one block checked" in flat(report(unpadded(blocks=1, blocks_checked=1)))
    assert "16 of 1,024 blocks checked" in flat(report(unpadded(blocks_checked=16)))
    note = "16 of 1024 blocks were checked: the first and the last, and others between them"
    sampled = flat(report(unpadded(blocks_checked=16, notes=(note, "printf is left out"))))
    assert f"; {note}; printf is left out" in sampled
    assert sampled.count("1024 blocks") == 1


def test_headline():
    assert report(halo([])).headline == "no faults in 4 blocks"
    clean = report(unpadded(lines=unpadded().lines[:2]))
    assert clean.headline == "no faults in 1,024 blocks; no bank conflicts, no wasted sectors to speak of"
    line = LineReport(KERNEL, 6, "", "global", "load", 10, sectors=320, ideal_sectors=40)
    assert report(halo([], [line])).headline == "no faults in 4 blocks; 8 × the ideal sectors at kernel.cu:6"
    both = report(unpadded(), unpadded()).headline
    assert both.endswith(f"; 2 lines with bank conflicts, the worst a 32-way bank conflict at {UNPADDED}:{COLUMN}")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9_999_999, "9,999,999"),
        (12_345_678, "12.3 M"),
        (123_456_789, "123 M"),
        (1_234_567_890, "1.23 G"),
    ],
)
def test_large_numbers_are_abbreviated(number, text):
    assert format_count(number) == text


HOSTILE_TEXT = "\x1b[31mred\x07\u202e λ 漢字漢字 <b>&amp;</b> " + "longer_than_a_line_" * 20


def hostile_report():
    """A report with extreme names, texts and numbers."""
    line = LineReport(
        HOSTILE_TEXT,
        123456,
        "\t" + HOSTILE_TEXT,
        "shared",
        "atomic",
        10**12,
        10**13,
        10**13 - 10**12,
        32,
        variable=HOSTILE_TEXT,
    )
    hostile = replace(
        RACE,
        file=HOSTILE_TEXT,
        line=123456,
        text=HOSTILE_TEXT,
        message=HOSTILE_TEXT,
        variable=HOSTILE_TEXT,
        block=(2**31, 65535, 65535),
    )
    nameless = LineReport("", 0, "", "global", "load", 0)
    notes = (HOSTILE_TEXT, "漢" * 200)
    launch = LaunchReport(
        HOSTILE_TEXT, (2**31 - 1, 65535, 65535), (1024, 1, 1), 0, 1, 2**62, (line, nameless), (hostile,), notes
    )
    return Report((launch, launch), 1e-9)


@pytest.mark.parametrize("subject", [report(), report(halo()), report(unpadded(), halo()), hostile_report()])
def test_text_fits_and_has_no_control_characters(subject):
    for line in str(subject).split("\n"):
        assert cell_len(line) <= 80
        assert line == line.rstrip()
        assert all(c.isprintable() for c in line)


def test_an_empty_report():
    empty = Report((), 0.0)
    assert empty.ok
    assert str(empty).startswith("✓ no faults\n")
    assert COUNTS_NOTE not in str(empty)
    assert "no faults" in empty._repr_html_()


# ---- the object ----


def test_a_report_of_several_launches():
    both = report(unpadded(), halo())
    assert (len(both.launches), both.lines, both.faults) == (2, unpadded().lines, FAULTS)
    assert not both.ok
    assert report().ok
    assert Report([unpadded()], 1.0).launches == (unpadded(),)


def test_repr_is_short():
    assert repr(report(halo([RACE]))) == "<Report 1 fault in 4 blocks: race (RAW) at kernel.cu:10>"
    assert len(repr(hostile_report())) < 250


def test_it_is_frozen_and_can_be_copied():
    result = report(halo())
    with pytest.raises(AttributeError):
        result.seconds = 2
    for duplicate in (
        copy.copy(result),
        copy.deepcopy(result),
        pickle.loads(pickle.dumps(result)),
        replace(result),
    ):
        assert (str(duplicate), duplicate.launches, duplicate.seconds) == (
            str(result),
            result.launches,
            result.seconds,
        )


def test_pytest_shows_the_whole_report(tmp_path):
    file = tmp_path / "test_kernel.py"
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'tests')!r})\nfrom reports import *\n\n"
        "def test_halo():\n    checked = report(halo())\n    assert checked.ok, checked\n"
    )
    command = "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)
    done = run_python(*command, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # plugins take long to import
    assert done.returncode == 1
    for line in str(report(halo())).split("\n"):
        assert line.strip() in done.stdout


def test_former_names_of_a_fault_warn():
    race = Fault("race", 3, file="k.cu", hazard="RAW")
    for name, former, text in (("location", "place", "k.cu:3"), ("fix", "remedy", race.fix)):
        with pytest.warns(DeprecationWarning, match=f"Fault.{former}: it is now called {name}"):
            assert getattr(race, former) == getattr(race, name) == text


# ---- JSON ----


def test_to_dict_is_json_and_keeps_its_keys():
    text = json.dumps(report(unpadded(), halo()).to_dict())
    found = json.loads(text)
    assert (found["schema"], found["version"], found["ok"]) == ("smemkit.report", 1, False)
    assert list(found) == ["schema", "version", "ok", "headline", "as_written", "seconds", "faults", "launches"]
    assert found["faults"] == found["launches"][1]["faults"]
    launch = found["launches"][0]
    assert list(launch) == [
        *("kernel", "grid", "block", "shared_bytes", "blocks_checked", "blocks", "lines", "faults", "notes"),
        *("allowed", "barriers", "cluster", "copies_in_flight", "bytes_in_flight", "waits"),
    ]
    assert launch["grid"] == [32, 32, 1]
    line = launch["lines"][2]
    assert list(line) == [
        *("file", "line", "text", "space", "access", "requests", "wavefronts", "conflicts", "degree", "sectors"),
        *("ideal_sectors", "size", "variable", "example", "lanes", "ideal_requests", "warps", "advice"),
    ]
    assert (line["wavefronts"], line["example"][1]) == (1048576, 128)
    assert line["advice"].endswith("pad the row to 33")
    first = found["launches"][1]["faults"][0]
    assert list(first) == [
        *("kind", "line", "other_line", "block", "threads", "variable", "message", "file", "other_file", "text"),
        *("hazard", "warp_synchronous", "count", "other_block", "severity", "fix", "knock_on", "cause", "allowed"),
        *("meaning", "remedy", "rule", "edits", "shared_bytes"),
    ]
    assert first["threads"] == [[4, 0, 0], [3, 0, 0]]


def test_numpy_scalars_become_json():
    np = pytest.importorskip("numpy")
    line = replace(unpadded().lines[2], wavefronts=np.int64(7), example=(np.uint64(4), None))
    text = json.dumps(report(unpadded(lines=(line,))).to_dict())
    assert '"wavefronts": 7' in text
    assert '"example": [4, null]' in text


# ---- HTML ----


class Text(HTMLParser):
    """Collects the text of an HTML page and asserts that its tags are balanced."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def read(html):
    parser = Text()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser


@pytest.mark.parametrize(
    "subject", [report(), report(halo()), report(unpadded(), halo()), hostile_report(), Report((), 0.0)]
)
def test_html_is_well_formed(subject):
    page = read(subject._repr_html_())
    assert subject.headline in "".join(page.text)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "b&gt;"})
    assert not any("http" in (value or "") for _, attributes in page.tags for value in attributes.values())


def test_html_escapes_user_text():
    html = hostile_report()._repr_html_()
    assert "&lt;b&gt;&amp;amp;&lt;/b&gt;" in html
    assert "<b>&amp;</b>" not in html


def test_html_has_the_source_and_its_numbers():
    html = report()._repr_html_()
    text = "".join(read(html).text)
    for word in ("tile[ty + j][tx]", "__syncthreads();", "1,048,576", "pad the row to 33", COUNTS_NOTE):
        assert word in text
    assert html.count("rgba(217,64,58,0.55)") == 4  # the 32-way line's numbers have the strongest red


def test_html_has_the_faults():
    text = flat("".join(read(report(halo())._repr_html_()).text))
    for each in FAULTS:
        assert each.meaning in text
        assert each.fix in text
    assert "◂ thread (3, 0, 0) wrote" in text


def bank_cells(html):
    return [attributes["title"] for tag, attributes in read(html).tags if "lane" in attributes.get("title", "")]


def test_bank_map_shows_conflicting_lanes():
    cells = bank_cells(report()._repr_html_())
    assert cells == [f"bank 0, wavefront {lane}: lane {lane}" for lane in LANES]


def test_the_bank_map_of_wide_lanes():
    line = LineReport(KERNEL, 6, "", "shared", "load", 1, 4, 0, 1, size=16, example=tuple(16 * t for t in LANES))
    cells = bank_cells(report(halo([], [line]))._repr_html_())
    assert len(cells) == 128
    assert cells[32] == "bank 0, wavefront 1: lane 8"


def test_lanes_that_share_a_word_share_a_cell():
    line = LineReport(KERNEL, 6, "", "shared", "load", 1, 2, 1, 2, example=(0, 0, 128, None))
    html = report(halo([], [line]))._repr_html_()
    assert bank_cells(html) == ["bank 0, wavefront 0: lanes 0, 1", "bank 0, wavefront 1: lane 2"]
    assert ">2×<" in html


# ---- figures ----


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def test_plot():
    pytest.importorskip("matplotlib")
    figure = report().plot()
    assert len(figure.axes) == 3
    written = texts(figure)
    for word in ("wavefronts", "sectors per request", "bank", "32-way"):
        assert word in written
    assert any(f"{UNPADDED}:{COLUMN}" in text for text in written)
    widths = sorted(bar.get_width() for bar in figure.axes[0].patches)
    assert widths == [0, 32768, 32768, 1015808]
    assert len(figure.axes[2].patches) == 32
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("subject", [report(halo()), hostile_report(), Report((), 0.0)])
@pytest.mark.filterwarnings("ignore:Glyph")
def test_plot_of_unusual_reports(subject):
    pytest.importorskip("matplotlib")
    assert subject.plot()._repr_png_().startswith(b"\x89PNG")


def test_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'smemkit[plot]'")):
        report().plot()
