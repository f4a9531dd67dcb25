"""A report for the eye: HTML for notebooks, and figures. Both draw the bank map: which bank serves whom."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from smemkit.advice import BANKS, advise, bank_map, explain
from smemkit.report import (
    AS_WRITTEN,
    NOTHING,
    Fault,
    LaunchReport,
    LineReport,
    Report,
    Sources,
    _sentence,
    average,
    by_line,
    cells,
    count,
    dedent,
    dimensions,
    fault_excerpts,
    printable,
    quantity,
    shorten,
)
from smemkit.timing import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAPS = 2  # bank maps in a notebook
FAULTS = 20  # faults that a notebook tells in full

# Colours are translucent and text has the page's own, so that light and dark themes both work.
_STYLE = """
.smk{font:13px/1.45 system-ui,sans-serif;max-width:84em}
.smk table{border-collapse:collapse;border:0;margin:.4em 0}
.smk .smk-scroll{overflow-x:auto}
.smk td,.smk th{border:0;padding:1px 6px;text-align:right;vertical-align:top;background:none;font-size:12px;
white-space:nowrap}
.smk th{font-weight:600;opacity:.7}
.smk td.smk-code,.smk .smk-at{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px}
.smk td.smk-code{text-align:left;white-space:pre-wrap;min-width:24em}
.smk td.smk-no{opacity:.55;user-select:none;font-family:ui-monospace,Menlo,Consolas,monospace}
.smk td.smk-left,.smk th.smk-left{text-align:left}
.smk td.smk-advice{text-align:left;white-space:normal;padding-bottom:5px}
.smk tr.smk-file th{text-align:left;padding-top:.6em}
.smk .smk-head{font-size:15px;font-weight:600;padding:.3em .6em;border-left:4px solid;margin-bottom:.5em}
.smk .smk-good{border-color:#2e9e5b;background:rgba(46,158,91,.12)}
.smk .smk-bad{border-color:#d9403a;background:rgba(217,64,58,.12)}
.smk .smk-fault{border-left:4px solid #d9403a;padding:.1em .7em;margin:.7em 0}
.smk .smk-fault p,.smk p{margin:.25em 0}
.smk .smk-hit{background:rgba(217,64,58,.16)}
.smk .smk-dim{opacity:.7}
.smk h4{margin:.9em 0 .1em;font-size:14px}
.smk table.smk-map{table-layout:fixed}
.smk table.smk-map td,.smk table.smk-map th{padding:0;width:20px;min-width:20px;height:15px;text-align:center;
font-size:9px;line-height:15px;border:1px solid rgba(128,128,128,.18)}
.smk table.smk-map th{border:0}
.smk table.smk-map th.smk-left{width:auto;min-width:0;text-align:right;padding-right:6px}
.smk table.smk-map td.smk-one{background:rgba(38,139,210,.35)}
.smk table.smk-map td.smk-many{background:rgba(217,64,58,.5)}
.smk table.smk-map tr.smk-group td{border-top:2px solid rgba(128,128,128,.9)}
.smk details{margin:.5em 0}
.smk summary{cursor:pointer}
""".strip()


# ---- HTML ----


def html(report: Report) -> str:
    """What a notebook shows: self-contained, all text escaped."""
    return "\n".join(_html(report, Sources(report.sources)))


def _html(report: Report, sources: Sources) -> Iterator[str]:
    yield f'<div class="smk"><style>{_STYLE}</style>'
    mark, state = ("✓", "smk-good") if report.ok else ("✗", "smk-bad")
    yield f'<div class="smk-head {state}">{mark} {escape(report.headline)}</div>'
    for launch in report.launches:
        for fault in launch.faults[:FAULTS]:
            yield from _html_fault(fault, launch if len(report.launches) > 1 else None, sources)
        if len(launch.faults) > FAULTS:
            rest = count(len(launch.faults) - FAULTS, "more fault")
            yield f"<p>and {rest}: <code>report.faults</code> has all</p>"
    for number, launch in enumerate(report.launches, 1):
        which = f"launch {number} of {len(report.launches)}: " if len(report.launches) > 1 else ""
        yield from _html_launch(launch, which, sources)
    for index, line in enumerate(worst_lines(report)):
        yield from _html_map(line, opened=index == 0 and line.conflicts > 0)
    tail = f"Checked in {format_seconds(report.seconds)}."
    yield f'<p class="smk-dim">{AS_WRITTEN + " " if report.lines else ""}{tail}</p></div>'


def _html_fault(fault: Fault, launch: LaunchReport | None, sources: Sources) -> Iterator[str]:
    facts = [f"<b>{escape(fault.title)}</b>" + (f" at {_code(fault.place)}" if fault.file else "")]
    facts += [_code(fault.variable)] if fault.variable else []
    facts.append(f"block {escape(str(tuple(fault.block)))}")
    if launch:
        facts.append(f"in {_code(launch.kernel)}")
    if fault.count > 1:
        facts.append(f"seen {fault.count:,} times")
    yield f'<div class="smk-fault"><p>{", ".join(facts)}</p><p>{escape(_sentence(fault.message))}</p>'
    excerpts = list(fault_excerpts(fault, sources))
    for file, rows in excerpts:
        yield f"<p>{_code(file)}</p>" if len(excerpts) > 1 else ""
        yield '<div class="smk-scroll"><table>'
        for row in rows:
            if row is None:
                yield '<tr><td class="smk-no">⋮</td><td></td><td></td></tr>'
                continue
            number, text, note = row
            hit = ' class="smk-hit"' if note else ""
            note = f"◂ {escape(note)}" if note else ""
            yield f'<tr{hit}><td class="smk-no">{number}</td><td class="smk-code">{escape(text)}</td>'
            yield f'<td class="smk-left">{note}</td></tr>'
        yield "</table></div>"
    meaning, remedy = explain(fault)
    yield f'<p class="smk-dim">{escape(meaning)}</p><p><b>Fix:</b> {escape(remedy)}</p></div>'


def _code(text: str) -> str:
    return f'<span class="smk-at">{escape(text)}</span>'


def _html_launch(launch: LaunchReport, which: str, sources: Sources) -> Iterator[str]:
    facts = [f"grid {dimensions(launch.grid)}", f"block {dimensions(launch.block)}"]
    if launch.shared_bytes:
        facts.append(f"{count(launch.shared_bytes, 'byte')} of shared memory")
    yield f"<h4>{which}{_code(launch.kernel)}</h4>"
    yield f'<p class="smk-dim">{escape("; ".join([", ".join(facts), *launch.remarks]))}</p>'
    groups = by_line(launch.lines)
    if not groups:
        yield f'<p class="smk-dim">{NOTHING}</p>'
        return
    yield '<div class="smk-scroll"><table><tr><th></th>'
    yield '<th class="smk-left">source</th><th class="smk-left">access</th>'
    yield "".join(f"<th>{name}</th>" for name in ("requests", "wavefronts", "conflicts", "n-way", "sectors/req"))
    yield "<th>ideal</th></tr>"
    faulty = {(fault.file, fault.line): fault.title for fault in launch.faults}
    for file in dict.fromkeys(name for name, _ in groups):
        yield f'<tr class="smk-file"><th colspan="9">{_code(file)}</th></tr>'
        numbers = [number for name, number in groups if name == file]
        numbers += [number for name, number in faulty if name == file and number is not None]
        rows = sources.excerpt(file, numbers, context=2)
        if not rows:
            rows = [(number, printable(lines[0].text)) for (name, number), lines in groups.items() if name == file]
        rows = dedent(rows)
        for row in rows:
            if row is None:
                yield '<tr><td class="smk-no">⋮</td></tr>'
            else:
                title = faulty.get((file, row[0]), "")
                yield from _html_line(row, groups.get((file, row[0]), []), title)
    yield "</table></div>"


def _html_line(row: tuple[int, str], lines: Sequence[LineReport], fault: str) -> Iterator[str]:
    """A source line with its accesses beside it, one below the other, and their advice below it."""
    number, text = row
    hit = f' smk-hit" title="{escape(fault)}' if fault else ""
    span = f' rowspan="{len(lines)}"' if len(lines) > 1 else ""
    yield f'<tr><td class="smk-no{hit}"{span}>{"✗ " if fault else ""}{number}</td>'
    yield f'<td class="smk-code"{span if lines else " colspan=8"}>{escape(text)}</td>'
    for index, line in enumerate(lines):
        heat = f' style="background:rgba(217,64,58,{_heat(line):.2f})"' if line.wasteful else ""
        yield "</tr><tr>" if index else ""
        yield f'<td class="smk-left">{line.space} {line.access} {_code(line.variable)}</td>'
        yield "".join(f"<td{heat if cell else ''}>{cell}</td>" for cell in cells(line))
    yield "</tr>"
    notes: dict[str, list[str]] = {}  # what is said of several accesses is said once
    for line in lines:
        notes.setdefault(advise(line), []).append(f"{line.space} {line.access}")
    for note, accesses in notes.items():
        if note:
            note = f"<b>{', '.join(accesses)}</b> {escape(note)}"
            yield f'<tr><td></td><td colspan="8" class="smk-advice">{note}</td></tr>'


def _heat(line: LineReport) -> float:
    """How red: 1.1 times the ideal is pale, 32 times is the most."""
    return 0.12 + 0.43 * min(1.0, math.log2(max(1.0, line.excess)) / 5)


def worst_lines(report: Report) -> list[LineReport]:
    """The shared lines whose bank maps are worth a look: those with conflicts, the worst first; or the busiest."""
    lines = [line for line in report.lines if line.space == "shared" and any(a is not None for a in line.example)]
    lines.sort(key=lambda line: (-line.conflicts, -line.degree, -line.wavefronts))
    return [line for line in lines if line.conflicts][:MAPS] or lines[:1]


def _title(line: LineReport) -> str:
    what = f"{line.file}:{line.line}, {line.space} {line.access}" + (
        f" of {line.variable}" if line.variable else ""
    )
    return f"{what}, {line.degree}-way" if line.conflicts else f"{what}, no conflict"


def _rows(line: LineReport) -> list[tuple[bool, list[tuple[int, ...]], list[bool]]]:
    """The bank map's wavefronts: whether it begins a group of lanes, who is at each bank, do they collide."""
    rows = []
    for number, group in enumerate(bank_map(line.example, line.size, store=line.access != "load")):
        crowded = [sum(bool(row[bank]) for row in group) > 1 for bank in range(BANKS)]
        rows += [(index == 0 and number > 0, row, crowded) for index, row in enumerate(group)]
    return rows


def _html_map(line: LineReport, opened: bool) -> Iterator[str]:
    rows = _rows(line)
    yield f"<details{' open' if opened else ''}><summary>Bank map of {_code(_title(line))}</summary>"
    yield (
        f'<p class="smk-dim">One request: {count(len(rows), "wavefront")}. A cell holds the lane that the bank '
        "serves then; n× is n lanes with the same word. Red: the bank has several words to deliver to one group "
        "of lanes.</p>"
    )
    yield '<div class="smk-scroll"><table class="smk-map"><tr><th class="smk-left">bank</th>'
    yield "".join(f"<th>{bank}</th>" for bank in range(BANKS)) + "</tr>"
    for number, (new, row, crowded) in enumerate(rows):
        yield f'<tr{" class=smk-group" if new else ""}><th class="smk-left">wavefront&nbsp;{number}</th>'
        for bank, lanes in enumerate(row):
            if not lanes:
                yield "<td></td>"
                continue
            kind = "smk-many" if crowded[bank] else "smk-one"
            who = f"bank {bank}, wavefront {number}: lane{'s' * (len(lanes) > 1)} {', '.join(map(str, lanes))}"
            yield f'<td class="{kind}" title="{who}">{_label(lanes)}</td>'
        yield "</tr>"
    yield "</table></div></details>"


def _label(lanes: Sequence[int]) -> str:
    return str(lanes[0]) if len(lanes) == 1 else f"{len(lanes)}×"


# ---- figures ----


def new_figure(who: str, *, figsize: tuple[float, float]) -> Figure:
    """A figure that a notebook shows, without pyplot and hence only once; `who` draws it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"{who} draws with matplotlib: pip install 'smemkit[plot]'") from error

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            import io

            png = io.BytesIO()
            self.savefig(png, format="png", bbox_inches="tight")
            return png.getvalue()

    return NotebookFigure(figsize=figsize, layout="constrained")


def plot(report: Report) -> Figure:
    """`Report.plot`."""
    shared = [line for line in report.lines if line.space == "shared"]
    remote = [line for line in report.lines if line.space == "global"]
    maps = worst_lines(report)[:1]
    heights = [0.9 + 0.32 * min(len(lines), 20) for lines in (shared, remote) if lines]
    heights += [1.2 + 0.19 * len(_rows(line)) for line in maps]
    figure = new_figure("report.plot()", figsize=(10, 0.6 + sum(heights or [1])))
    figure.suptitle(
        textwrap.fill(shorten(report.headline, 300), 110), x=0.01, ha="left", fontsize=11, parse_math=False
    )
    panels = [
        axes[0] for axes in figure.subplots(max(1, len(heights)), 1, height_ratios=heights or [1], squeeze=False)
    ]
    free = iter(panels)
    if shared:
        ideal = [line.wavefronts - line.conflicts for line in shared]
        notes = [f"{line.degree}-way" if line.conflicts else "" for line in shared]
        _bars(
            next(free), shared, ideal, [line.wavefronts for line in shared], "wavefronts", "bank conflicts", notes
        )
    if remote:
        ideal = [line.ideal_sectors / max(1, line.requests) for line in remote]
        whole = [line.sectors / max(1, line.requests) for line in remote]
        notes = [average(line.sectors, line.requests) if line.wasteful else "" for line in remote]
        _bars(next(free), remote, ideal, whole, "sectors a request", "more than the bytes need", notes)
    for line in maps:
        _draw_map(next(free), line)
    if not heights:
        panels[0].set_axis_off()
        panels[0].text(0.5, 0.5, "no line touches shared or global memory", ha="center")
    return figure


def _bars(
    axes: Axes,
    lines: Sequence[LineReport],
    ideal: Sequence[float],
    whole: Sequence[float],
    unit: str,
    excess: str,
    notes: Sequence[str],
) -> None:
    """A bar for each line: the ideal, and what it costs beyond that. Of many lines the 20 that cost the most."""
    order = sorted(range(len(lines)), key=lambda i: -whole[i])[:20]
    order.sort()
    names = [f"{shorten(line.text.strip(), 44)}   {line.line} {line.access}" for line in (lines[i] for i in order)]
    places, best = range(len(order)), [ideal[i] for i in order]
    more = [max(0.0, whole[i] - ideal[i]) for i in order]
    axes.barh(places, best, color="teal", label="ideal")
    bars = axes.barh(places, more, left=best, color="tomato", label=excess)
    axes.bar_label(bars, [notes[i] for i in order], padding=3, fontsize=8)
    axes.set_yticks(places, names, fontsize=8, family="monospace", parse_math=False)
    axes.set_xlabel(unit)
    if max(whole) >= 1000:
        axes.xaxis.set_major_formatter(lambda value, _: quantity(round(value)))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)


def _draw_map(axes: Axes, line: LineReport) -> None:
    from matplotlib.patches import Rectangle

    rows = _rows(line)
    for number, (new, row, crowded) in enumerate(rows):
        if new:
            axes.axhline(number - 0.5, color="black", linewidth=1.5)
        for bank, lanes in enumerate(row):
            if lanes:
                color = "tomato" if crowded[bank] else "skyblue"
                axes.add_patch(Rectangle((bank - 0.5, number - 0.5), 1, 1, color=color, linewidth=0))
                axes.text(bank, number, _label(lanes), ha="center", va="center", fontsize=6.5, color="black")
    axes.set(xlim=(-0.5, BANKS - 0.5), ylim=(len(rows) - 0.5, -0.5), xlabel="bank", ylabel="wavefront")
    axes.set_xticks(range(0, BANKS, 4))
    axes.set_xticks([bank + 0.5 for bank in range(BANKS - 1)], minor=True)
    axes.set_yticks(range(0, len(rows), max(1, len(rows) // 8)))
    axes.grid(which="minor", color="lightgray", linewidth=0.4)
    axes.tick_params(which="minor", length=0)
    title = f"{shorten(_title(line), 90)}\nthe lane that a bank serves; n×: n lanes with one word"
    axes.set_title(title, fontsize=9, parse_math=False)
