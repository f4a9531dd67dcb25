"""A report as HTML for notebooks and as figures. Both draw the bank map: the lanes that each bank serves."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from smemkit.advice import BANKS, advise, bank_map, explain
from smemkit.report import (
    COUNTS_NOTE,
    NO_ACCESS_TEXT,
    Fault,
    LaunchReport,
    LineReport,
    Report,
    SourceFiles,
    _as_sentence,
    dedent,
    fault_excerpts,
    format_average,
    format_count,
    format_dimensions,
    group_by_line,
    pluralize,
    printable,
    shorten,
    table_cells,
)
from smemkit.timing import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BANK_MAPS = 2  # bank maps in a notebook
MAX_HTML_FAULTS = 20  # faults shown in full in a notebook

# Colours are translucent and text has the page's colour, so that light and dark themes both work.
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
    """The HTML that a notebook shows: self-contained, with all text escaped."""
    return "\n".join(_html(report, SourceFiles(report.sources)))


def _html(report: Report, sources: SourceFiles) -> Iterator[str]:
    yield f'<div class="smk"><style>{_STYLE}</style>'
    mark, state = ("✓", "smk-good") if report.ok else ("✗", "smk-bad")
    yield f'<div class="smk-head {state}">{mark} {escape(report.headline)}</div>'
    for launch in report.launches:
        for fault in launch.faults[:MAX_HTML_FAULTS]:
            yield from _html_fault(fault, launch if len(report.launches) > 1 else None, sources)
        if len(launch.faults) > MAX_HTML_FAULTS:
            rest = pluralize(len(launch.faults) - MAX_HTML_FAULTS, "more fault")
            yield f"<p>and {rest}: <code>report.faults</code> has all</p>"
    for number, launch in enumerate(report.launches, 1):
        which = f"launch {number} of {len(report.launches)}: " if len(report.launches) > 1 else ""
        yield from _html_launch(launch, which, sources)
    for index, line in enumerate(worst_lines(report)):
        yield from _html_map(line, opened=index == 0 and line.conflicts > 0)
    tail = f"Checked in {format_seconds(report.seconds)}."
    yield f'<p class="smk-dim">{COUNTS_NOTE + " " if report.lines else ""}{tail}</p></div>'


def _html_fault(fault: Fault, launch: LaunchReport | None, sources: SourceFiles) -> Iterator[str]:
    facts = [f"<b>{escape(fault.title)}</b>" + (f" at {_html_code(fault.place)}" if fault.file else "")]
    facts += [_html_code(fault.variable)] if fault.variable else []
    facts.append(f"block {escape(str(tuple(fault.block)))}")
    if launch:
        facts.append(f"in {_html_code(launch.kernel)}")
    if fault.count > 1:
        facts.append(f"seen {fault.count:,} times")
    yield f'<div class="smk-fault"><p>{", ".join(facts)}</p><p>{escape(_as_sentence(fault.message))}</p>'
    excerpts = list(fault_excerpts(fault, sources))
    for file, rows in excerpts:
        yield f"<p>{_html_code(file)}</p>" if len(excerpts) > 1 else ""
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


def _html_code(text: str) -> str:
    return f'<span class="smk-at">{escape(text)}</span>'


def _html_launch(launch: LaunchReport, which: str, sources: SourceFiles) -> Iterator[str]:
    facts = [f"grid {format_dimensions(launch.grid)}", f"block {format_dimensions(launch.block)}"]
    if launch.shared_bytes:
        facts.append(f"{pluralize(launch.shared_bytes, 'byte')} of shared memory")
    yield f"<h4>{which}{_html_code(launch.kernel)}</h4>"
    yield f'<p class="smk-dim">{escape("; ".join([", ".join(facts), *launch.remarks]))}</p>'
    groups = group_by_line(launch.lines)
    if not groups:
        yield f'<p class="smk-dim">{NO_ACCESS_TEXT}</p>'
        return
    yield '<div class="smk-scroll"><table><tr><th></th>'
    yield '<th class="smk-left">source</th><th class="smk-left">access</th>'
    yield "".join(f"<th>{name}</th>" for name in ("requests", "wavefronts", "conflicts", "n-way", "sectors/req"))
    yield "<th>ideal</th></tr>"
    faulty = {(fault.file, fault.line): fault.title for fault in launch.faults}
    for file in dict.fromkeys(name for name, _ in groups):
        yield f'<tr class="smk-file"><th colspan="9">{_html_code(file)}</th></tr>'
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
    """A source line, its accesses in rows beside it, and their advice below it."""
    number, text = row
    hit = f' smk-hit" title="{escape(fault)}' if fault else ""
    span = f' rowspan="{len(lines)}"' if len(lines) > 1 else ""
    yield f'<tr><td class="smk-no{hit}"{span}>{"✗ " if fault else ""}{number}</td>'
    yield f'<td class="smk-code"{span if lines else " colspan=8"}>{escape(text)}</td>'
    for index, line in enumerate(lines):
        heat = f' style="background:rgba(217,64,58,{_heat_opacity(line):.2f})"' if line.wasteful else ""
        yield "</tr><tr>" if index else ""
        yield f'<td class="smk-left">{line.space} {line.access} {_html_code(line.variable)}</td>'
        yield "".join(f"<td{heat if cell else ''}>{cell}</td>" for cell in table_cells(line))
    yield "</tr>"
    notes: dict[str, list[str]] = {}  # advice for several accesses is shown once
    for line in lines:
        notes.setdefault(advise(line), []).append(f"{line.space} {line.access}")
    for note, accesses in notes.items():
        if note:
            note = f"<b>{', '.join(accesses)}</b> {escape(note)}"
            yield f'<tr><td></td><td colspan="8" class="smk-advice">{note}</td></tr>'


def _heat_opacity(line: LineReport) -> float:
    """The opacity of red: pale at 1.1 times the ideal, highest from 32 times."""
    return 0.12 + 0.43 * min(1.0, math.log2(max(1.0, line.excess)) / 5)


def worst_lines(report: Report) -> list[LineReport]:
    """The lines of shared memory whose bank maps are shown: those with conflicts, worst first; otherwise the
    busiest."""
    lines = [line for line in report.lines if line.space == "shared" and any(a is not None for a in line.example)]
    lines.sort(key=lambda line: (-line.conflicts, -line.degree, -line.wavefronts))
    return [line for line in lines if line.conflicts][:MAX_BANK_MAPS] or lines[:1]


def _bank_map_title(line: LineReport) -> str:
    what = f"{line.file}:{line.line}, {line.space} {line.access}" + (
        f" of {line.variable}" if line.variable else ""
    )
    return f"{what}, {line.degree}-way" if line.conflicts else f"{what}, no conflict"


def _bank_map_rows(line: LineReport) -> list[tuple[bool, list[tuple[int, ...]], list[bool]]]:
    """Per wavefront of a bank map: whether it begins a group of lanes, the lanes of each bank, and whether the
    bank delivers several words to the group."""
    rows = []
    for number, group in enumerate(bank_map(line.example, line.size, store=line.access != "load")):
        crowded = [sum(bool(row[bank]) for row in group) > 1 for bank in range(BANKS)]
        rows += [(index == 0 and number > 0, row, crowded) for index, row in enumerate(group)]
    return rows


def _html_map(line: LineReport, opened: bool) -> Iterator[str]:
    rows = _bank_map_rows(line)
    yield f"<details{' open' if opened else ''}><summary>Bank map of {_html_code(_bank_map_title(line))}</summary>"
    yield (
        f'<p class="smk-dim">One request: {pluralize(len(rows), "wavefront")}. A cell holds the lane that the '
        "bank serves in that wavefront; n× is n lanes with the same word. Red: the bank has several words to "
        "deliver to one group of lanes.</p>"
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
            yield f'<td class="{kind}" title="{who}">{_cell_text(lanes)}</td>'
        yield "</tr>"
    yield "</table></div></details>"


def _cell_text(lanes: Sequence[int]) -> str:
    return str(lanes[0]) if len(lanes) == 1 else f"{len(lanes)}×"


# ---- figures ----


def new_figure(caller: str, *, figsize: tuple[float, float]) -> Figure:
    """A figure that a notebook shows, only once because it avoids pyplot. `caller` is named in the ImportError."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"{caller} draws with matplotlib: pip install 'smemkit[plot]'") from error

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            import io

            png = io.BytesIO()
            self.savefig(png, format="png", bbox_inches="tight")
            return png.getvalue()

    return NotebookFigure(figsize=figsize, layout="constrained")


def plot(report: Report) -> Figure:
    """Implements `Report.plot`."""
    shared = [line for line in report.lines if line.space == "shared"]
    global_lines = [line for line in report.lines if line.space == "global"]
    maps = worst_lines(report)[:1]
    heights = [0.9 + 0.32 * min(len(lines), 20) for lines in (shared, global_lines) if lines]
    heights += [1.2 + 0.19 * len(_bank_map_rows(line)) for line in maps]
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
        _bar_chart(
            next(free), shared, ideal, [line.wavefronts for line in shared], "wavefronts", "bank conflicts", notes
        )
    if global_lines:
        ideal = [line.ideal_sectors / max(1, line.requests) for line in global_lines]
        whole = [line.sectors / max(1, line.requests) for line in global_lines]
        notes = [format_average(line.sectors, line.requests) if line.wasteful else "" for line in global_lines]
        _bar_chart(
            next(free), global_lines, ideal, whole, "sectors per request", "more than the bytes need", notes
        )
    for line in maps:
        _draw_map(next(free), line)
    if not heights:
        panels[0].set_axis_off()
        panels[0].text(0.5, 0.5, "no line touches shared or global memory", ha="center")
    return figure


def _bar_chart(
    axes: Axes,
    lines: Sequence[LineReport],
    ideal: Sequence[float],
    whole: Sequence[float],
    unit: str,
    excess: str,
    notes: Sequence[str],
) -> None:
    """A bar per line: the ideal, and the cost above it. Of more than 20 lines, those with the highest cost."""
    order = sorted(range(len(lines)), key=lambda i: -whole[i])[:20]
    order.sort()
    names = [f"{shorten(line.text.strip(), 44)}   {line.line} {line.access}" for line in (lines[i] for i in order)]
    positions, best = range(len(order)), [ideal[i] for i in order]
    more = [max(0.0, whole[i] - ideal[i]) for i in order]
    axes.barh(positions, best, color="teal", label="ideal")
    bars = axes.barh(positions, more, left=best, color="tomato", label=excess)
    axes.bar_label(bars, [notes[i] for i in order], padding=3, fontsize=8)
    axes.set_yticks(positions, names, fontsize=8, family="monospace", parse_math=False)
    axes.set_xlabel(unit)
    if max(whole) >= 1000:
        axes.xaxis.set_major_formatter(lambda value, _: format_count(round(value)))
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)


def _draw_map(axes: Axes, line: LineReport) -> None:
    from matplotlib.patches import Rectangle

    rows = _bank_map_rows(line)
    for number, (new, row, crowded) in enumerate(rows):
        if new:
            axes.axhline(number - 0.5, color="black", linewidth=1.5)
        for bank, lanes in enumerate(row):
            if lanes:
                color = "tomato" if crowded[bank] else "skyblue"
                axes.add_patch(Rectangle((bank - 0.5, number - 0.5), 1, 1, color=color, linewidth=0))
                axes.text(bank, number, _cell_text(lanes), ha="center", va="center", fontsize=6.5, color="black")
    axes.set(xlim=(-0.5, BANKS - 0.5), ylim=(len(rows) - 0.5, -0.5), xlabel="bank", ylabel="wavefront")
    axes.set_xticks(range(0, BANKS, 4))
    axes.set_xticks([bank + 0.5 for bank in range(BANKS - 1)], minor=True)
    axes.set_yticks(range(0, len(rows), max(1, len(rows) // 8)))
    axes.grid(which="minor", color="lightgray", linewidth=0.4)
    axes.tick_params(which="minor", length=0)
    title = f"{shorten(_bank_map_title(line), 90)}\nthe lane that a bank serves; n×: n lanes with one word"
    axes.set_title(title, fontsize=9, parse_math=False)
