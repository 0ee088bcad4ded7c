"""How the report looks: its style, tables and numbers. Cells are HTML already; whoever makes them escapes texts."""

from __future__ import annotations

from collections.abc import Sequence

STYLE = """
:root { --ink: #1e293b; --soft: #64748b; --line: #e2e8f0; --blue: #2563eb; --green: #047857; --red: #b91c1c }
* { box-sizing: border-box }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: #f8fafc; margin: 0 }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.2rem 4rem }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem }
h2 { font-size: 1.2rem; margin: 0 0 .6rem }
h3 { font-size: 1rem; margin: 1rem 0 .2rem }
section { background: white; border: 1px solid var(--line); border-radius: .7rem; padding: 1.2rem 1.4rem;
  margin: 1.2rem 0 }
.lead { font-size: 1.08rem; border-left: 4px solid var(--blue) }
.warning { border-left: 4px solid #d97706; background: #fffbeb }
.warning ul { margin: 0; padding-left: 1.2rem }
.fine, figcaption { color: var(--soft); font-size: .87rem; font-weight: 400 }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .8rem; margin: 1.2rem 0 }
.card { background: white; border: 1px solid var(--line); border-radius: .7rem; padding: .8rem 1rem }
.card b { display: block; font-size: 1.35rem; line-height: 1.25; overflow-wrap: anywhere }
.card span { color: var(--soft); font-size: .83rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; margin: .6rem 0; width: 100% }
th, td { padding: .32rem .7rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top }
th { font-size: .8rem; color: var(--soft); font-weight: 600 }
td { overflow-wrap: anywhere; min-width: 4rem }
td:first-child { min-width: 13rem }
table.pairs { width: auto; min-width: 24rem }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
th.number { text-align: right }
tr.chosen { background: #eff6ff; font-weight: 600 }
tr.now { background: #f1f5f9 }
tr.floor { color: var(--soft); font-style: italic }
.good { color: var(--green) }
.bad { color: var(--red) }
.tag { font-size: .74rem; font-weight: 600; border-radius: 1rem; padding: .06rem .55rem; background: #dbeafe;
  color: #1d4ed8; margin-left: .4rem; white-space: nowrap }
.tag.grey { background: #e2e8f0; color: #334155 }
figure { margin: .6rem 0; text-align: center }
figure img { max-width: 100%; height: auto }
figcaption { text-align: left; max-width: 52rem; margin: .3rem auto 0 }
summary { cursor: pointer; color: var(--blue) }
pre { white-space: pre-wrap; background: #f1f5f9; padding: .8rem 1rem; border-radius: .5rem; font-size: .85rem }
code { font-size: .85rem; overflow-wrap: anywhere }
"""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str] = ()) -> str:
    """Return a table of cells that are HTML already; `kinds` are classes of its rows. Two columns make it narrow."""
    numeric = [bool(rows) and all(_is_number(row, place) for row in rows) for place in range(len(heads))]
    head = "".join(
        f'<th class="number">{text}</th>' if right else f"<th>{text}</th>"
        for text, right in zip(heads, numeric, strict=True)
    )
    lines = []
    for place, row in enumerate(rows):
        kind = f' class="{kinds[place]}"' if place < len(kinds) and kinds[place] else ""
        cells = "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in row)
        lines.append(f"<tr{kind}>{cells}</tr>\n")
    narrow = ' class="pairs"' if len(heads) == 2 else ""
    top = f"<thead><tr>{head}</tr></thead>" if any(heads) else ""
    return f'<div class="scroll"><table{narrow}>{top}<tbody>\n{"".join(lines)}</tbody></table></div>'


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
    """Return a picture with a caption, both HTML."""
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"
