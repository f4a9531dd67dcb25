"""A report as HTML, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from smemkit.checker.bank_maps import bank_map_rows, bank_map_title, cell_text, worst_lines
from smemkit.checker.banks import BANKS
from smemkit.checker.excerpts import SourceFiles, dedent, fault_excerpts, printable
from smemkit.checker.faults import Fault, explain
from smemkit.checker.launches import (
    COUNTS_NOTE,
    NO_ACCESS_TEXT,
    LaunchReport,
    as_sentence,
    asynchronous_facts,
    group_by_line,
    headline,
    knock_on_text,
    launch_facts,
    table_cells,
)
from smemkit.checker.lines import LineReport
from smemkit.measure.formats import format_seconds, pluralize

__all__ = ["html"]

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


def html(launches: Sequence[LaunchReport], seconds: float, sources: Mapping[str, str]) -> str:
    """The HTML that a notebook shows: self-contained, with all text escaped."""
    return "\n".join(_html(launches, seconds, SourceFiles(sources)))


def _html(launches: Sequence[LaunchReport], seconds: float, sources: SourceFiles) -> Iterator[str]:
    lines = [line for launch in launches for line in launch.lines]
    yield f'<div class="smk"><style>{_STYLE}</style>'
    errors = any(fault.severity == "error" for launch in launches for fault in launch.faults)
    mark, state = ("✗", "smk-bad") if errors else ("✓", "smk-good")
    yield f'<div class="smk-head {state}">{mark} {escape(headline(launches))}</div>'
    for launch in launches:
        for fault in launch.faults[:MAX_HTML_FAULTS]:
            yield from _html_fault(fault, launch if len(launches) > 1 else None, sources)
        if len(launch.faults) > MAX_HTML_FAULTS:
            rest = pluralize(len(launch.faults) - MAX_HTML_FAULTS, "more fault")
            yield f"<p>and {rest}: <code>report.faults</code> has all</p>"
    for number, launch in enumerate(launches, 1):
        which = f"launch {number} of {len(launches)}: " if len(launches) > 1 else ""
        yield from _html_launch(launch, which, sources)
    for index, line in enumerate(worst_lines(lines)):
        yield from _html_map(line, opened=index == 0 and line.conflicts > 0)
    tail = f"Checked in {format_seconds(seconds)}."
    yield f'<p class="smk-dim">{COUNTS_NOTE + " " if lines else ""}{tail}</p></div>'


def _html_fault(fault: Fault, launch: LaunchReport | None, sources: SourceFiles) -> Iterator[str]:
    facts = [f"<b>{escape(fault.title)}</b>" + (f" at {_html_code(fault.location)}" if fault.file else "")]
    facts += [_html_code(fault.variable)] if fault.variable else []
    facts.append(f"block {escape(str(tuple(fault.block)))}")
    if launch:
        facts.append(f"in {_html_code(launch.kernel)}")
    if fault.count > 1:
        facts.append(f"seen {fault.count:,} times")
    yield f'<div class="smk-fault"><p>{", ".join(facts)}</p><p>{escape(as_sentence(fault.message))}</p>'
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
    meaning, fix = explain(fault)
    fix = escape(" ".join(filter(None, (fix, knock_on_text(fault)))))
    yield f'<p class="smk-dim">{escape(meaning)}</p><p><b>Fix:</b> {fix}</p></div>'


def _html_code(text: str) -> str:
    return f'<span class="smk-at">{escape(text)}</span>'


def _html_launch(launch: LaunchReport, which: str, sources: SourceFiles) -> Iterator[str]:
    yield f"<h4>{which}{_html_code(launch.kernel)}</h4>"
    yield f'<p class="smk-dim">{escape("; ".join([launch_facts(launch), *launch.remarks]))}</p>'
    for fact in asynchronous_facts(launch):
        yield f'<p class="smk-dim">{escape(fact)}</p>'
    groups = group_by_line(launch.lines)
    if not groups:
        yield f'<p class="smk-dim">{NO_ACCESS_TEXT}</p>'
        return
    yield '<div class="smk-scroll"><table><tr><th></th>'
    yield '<th class="smk-left">source</th><th class="smk-left">access</th>'
    names = ("requests", "lanes", "wavefronts", "conflicts", "n-way", "sectors")
    yield "".join(f"<th>{name}</th>" for name in names)
    yield "<th>ideal</th></tr>"
    faulty = {(fault.file, fault.line): fault.title for fault in launch.faults}
    for file in dict.fromkeys(name for name, _ in groups):
        yield f'<tr class="smk-file"><th colspan="10">{_html_code(file)}</th></tr>'
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
    yield f'<td class="smk-code"{span if lines else " colspan=9"}>{escape(text)}</td>'
    for index, line in enumerate(lines):
        heat = f' style="background:rgba(217,64,58,{_heat_opacity(line):.2f})"' if line.wasteful else ""
        yield "</tr><tr>" if index else ""
        yield f'<td class="smk-left">{line.space} {line.access} {_html_code(line.variable)}</td>'
        yield "".join(f"<td{heat if cell else ''}>{cell}</td>" for cell in table_cells(line))
    yield "</tr>"
    notes: dict[str, list[str]] = {}  # advice for several accesses is shown once
    for line in lines:
        notes.setdefault(line.advice, []).append(f"{line.space} {line.access}")
    for note, accesses in notes.items():
        if note:
            note = f"<b>{', '.join(accesses)}</b> {escape(note)}"
            yield f'<tr><td></td><td colspan="9" class="smk-advice">{note}</td></tr>'


def _heat_opacity(line: LineReport) -> float:
    """The opacity of red: pale at 1.1 times the ideal, highest from 32 times."""
    return 0.12 + 0.43 * min(1.0, math.log2(max(1.0, line.excess)) / 5)


def _html_map(line: LineReport, opened: bool) -> Iterator[str]:
    rows = bank_map_rows(line)
    yield f"<details{' open' if opened else ''}><summary>Bank map of {_html_code(bank_map_title(line))}</summary>"
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
            yield f'<td class="{kind}" title="{who}">{cell_text(lanes)}</td>'
        yield "</tr>"
    yield "</table></div></details>"
