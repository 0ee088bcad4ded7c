"""How the report looks: its style, tables and numbers. Cells are HTML already; whoever makes them escapes texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape, unescape

from covey.advisor.theme import css

LAYOUT = """
* { box-sizing: border-box }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 0 }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.2rem 4rem }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem }
h2 { font-size: 1.2rem; margin: 0 0 .6rem }
h3 { font-size: 1rem; margin: 1rem 0 .2rem }
h1, h2, h3, p, li, figcaption { overflow-wrap: anywhere }
section { background: var(--paper); border: 1px solid var(--line); border-radius: .7rem; padding: 1.2rem 1.4rem;
  margin: 1.2rem 0 }
.lead { border-left: 4px solid var(--series-0) }
.lead p:first-of-type { margin-top: 0; font-size: 1.15rem; font-weight: 600 }
section > :last-child { margin-bottom: 0 }
.warning { border-left: 4px solid var(--warning); background: var(--warning-ground) }
.warning ul { margin: 0; padding-left: 1.2rem }
.fine, figcaption { color: var(--soft); font-size: .87rem; font-weight: 400 }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .8rem; margin: 1.2rem 0 }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: .7rem; padding: .8rem 1rem }
.card b { display: block; font-size: 1.35rem; line-height: 1.25; overflow-wrap: anywhere }
.card span { color: var(--soft); font-size: .83rem }
.scroll, .picture { overflow-x: auto }
table { border-collapse: collapse; margin: .6rem 0; width: 100% }
th, td { padding: .32rem .7rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top }
th { font-size: .8rem; color: var(--soft); font-weight: 600; vertical-align: bottom }
td { overflow-wrap: anywhere; min-width: 6.5rem }
td:first-child:not(.number) { min-width: 10rem }
table:not(.pairs) td:last-child:not(.number) { min-width: 14rem }
table.pairs { width: auto; max-width: 100% }
td.number { min-width: 0; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
th.number { text-align: right }
td.number.left { text-align: left }
tr.chosen { background: var(--chosen-ground); font-weight: 600 }
tr.now { background: var(--now-ground) }
tr.floor { color: var(--soft); font-style: italic }
.good { color: var(--good) }
.bad { color: var(--bad) }
.tag { display: inline-block; font-size: .74rem; font-weight: 600; border-radius: 1rem; padding: 0 .55rem;
  background: var(--tag-ground); color: var(--ink); margin-left: .4rem; white-space: nowrap }
.tag.grey { background: var(--now-ground); border: 1px solid var(--line) }
figure { margin: .6rem 0; text-align: center }
.picture img, .picture svg { max-width: none; height: auto }
.picture .light { background: white; border-radius: .7rem; padding: .5rem }
figcaption { text-align: left; max-width: 52rem; margin: .3rem auto 0 }
details { margin: .6rem 0 }
.copy pre { user-select: all; white-space: pre; overflow-x: auto }
summary { cursor: pointer; color: var(--link) }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--now-ground); padding: .8rem 1rem;
  border-radius: .5rem; font-size: .85rem }
code { font-size: .9em; overflow-wrap: anywhere }
@media (min-width: 60rem) { td:first-child:not(.number) { min-width: 13rem } }
@media (max-width: 40rem) {
  main { padding: 1.2rem .7rem 2rem }
  section { padding: 1rem .9rem }
}
@media print {
  body { background: white }
  main { padding: 0; max-width: none }
  section, .card { border-color: #cbd5e1 }
  figure, tr, .card { break-inside: avoid }
  h2, h3 { break-after: avoid }
  .picture, .scroll { overflow: visible }
  .copy { display: none }
  .picture img, .picture svg { max-width: 100% }
  table { font-size: .8rem }
}
"""
STYLE = css(":root") + LAYOUT


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Return a whole page from parts that are HTML already; `title` is a text."""
    inside = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head><body><main>\n"
        f"<h1>{escape(title)}</h1>\n{inside}\n</main></body></html>\n"
    )


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str] = (), *, copy: bool = False
) -> str:
    """Return a table of cells that are HTML already; `kinds` are classes of its rows. Two columns make it narrow.

    With `copy` it is followed by the same table as text with tabs, folded: a click selects it for a spreadsheet.
    """
    numeric = [bool(rows) and all(_is_number(row, place) for row in rows) for place in range(len(heads))]
    head = "".join(
        f'<th class="number">{text}</th>' if right else f"<th>{text}</th>"
        for text, right in zip(heads, numeric, strict=True)
    )
    lines = []
    for place, row in enumerate(rows):
        kind = f' class="{kinds[place]}"' if place < len(kinds) and kinds[place] else ""
        cells = "".join(_cell(cell, right) for cell, right in zip(row, numeric, strict=False))
        lines.append(f"<tr{kind}>{cells}</tr>\n")
    narrow = ' class="pairs"' if len(heads) == 2 else ""
    top = f"<thead><tr>{head}</tr></thead>" if any(heads) else ""
    whole = f'<div class="scroll" tabindex="0"><table{narrow}>{top}<tbody>\n{"".join(lines)}</tbody></table></div>'
    return whole + (copyable(heads, rows) if copy else "")


def copyable(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already as text with tabs, for spreadsheets."""
    lines = ["\t".join(map(plain, row)) for row in (heads, *rows)]
    return (
        '<details class="copy"><summary>The table as text, to copy</summary>'
        f"<pre>{escape(chr(10).join(lines))}</pre></details>"
    )


def plain(cell: str) -> str:
    """Return the text of a cell in one line: without what is folded in it, and numbers without separators."""
    shown = re.sub(r"<details\b.*?</details>", "", cell, flags=re.DOTALL)
    text = " ".join(unescape(re.sub(r"<[^<>]*>", " ", shown)).split())
    return text.replace(",", "") if cell.startswith('<td class="number"') else text


def _cell(cell: str, right: bool) -> str:
    """Return a cell; a number among texts stands at the left, as they do."""
    if not cell.startswith("<td"):
        return f"<td>{cell}</td>"
    return cell if right else cell.replace('class="number"', 'class="number left"', 1)


def _is_number(row: Sequence[str], place: int) -> bool:
    return place >= len(row) or row[place].startswith(('<td class="number"', "<td colspan"))


def number(value: float | None) -> str:
    """Return a number as a cell."""
    if value is None:
        return '<td class="number"></td>'
    whole = float(value).is_integer()
    text = f"{value:,.0f}" if whole or abs(value) >= 10_000 else f"{value:,.4g}"
    return f'<td class="number">{text}</td>'


def figure(picture: str, caption: str) -> str:
    """Return a picture with a caption, both HTML; a picture that is too wide for the page scrolls in its own box."""
    return f'<figure><div class="picture" tabindex="0">{picture}</div><figcaption>{caption}</figcaption></figure>'


def said(text: str) -> str:
    """Return a text as HTML, in which what stands between `backticks` is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def counted(count: int, thing: str) -> str:
    """Return how many of a thing there are, in words: 1 entry, 2,000 entries."""
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{count:,} {thing if count == 1 else plural}"
