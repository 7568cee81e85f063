"""Tables of a page as a grid: what spans several rows or columns is repeated, and what stands in a cell is one line. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_COLUMNS = 100
MAX_ROWSPAN = 500
MAX_REPEATED = 300  # characters of a cell's HTML; a longer one stands once, with empty cells beside it

LINE = "\ue002"  # a line's end within a cell, until the Markdown is there

_NO_HEAD = re.compile(r"<thead><tr>(?:<th></th>)*+</tr></thead>")
_CODE = re.compile(r"<pre><code[^>]*>([^<]*)</code></pre>")
_EDGE = re.compile(
    r"</(?:p|li|div|h[1-6]|tr|blockquote|dd|dt|pre|caption)>"
    r"|<(?:br|hr|p|div|h[1-6]|ul|ol|dl|table|blockquote|pre)(?: [^>]*)?>"
)
_CELL_END = re.compile(r"</t[dh]>(?=<t[dh])")
_ITEM = re.compile(r"<li>(?:<p>)?")
_BLOCK = re.compile(
    r"</?(?:p|li|ul|ol|dl|dd|dt|div|h[1-6]|table|thead|tbody|tfoot|tr|t[dh]|blockquote|pre|caption)(?: [^>]*)?>"
)
_LINES = re.compile(rf"[ \t\n]*{LINE}[ \t\n{LINE}]*")


@dataclass(frozen=True)
class Cell:
    html: str
    is_head: bool
    columns: int = 1
    rows: int = 1


def cell_of(html: str, attributes: dict[str, str], *, is_head: bool) -> Cell:
    return Cell(
        one_line(html),
        is_head,
        min(_count(attributes.get("colspan")), MAX_COLUMNS),
        min(_count(attributes.get("rowspan")), MAX_ROWSPAN),
    )


def _count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and 0 < len(text) < 6 and int(text) > 0 else 1


def one_line(html: str) -> str:
    """What stands in a cell, without blocks: a pipe table has one line a row."""
    html = _CODE.sub(lambda found: _code_lines(found[1]), html)
    html = _CELL_END.sub(" · ", _NO_HEAD.sub("", html))
    html = _EDGE.sub(LINE, _ITEM.sub("- ", html))
    return _LINES.sub(LINE, _BLOCK.sub("", html)).strip(f" \t\n{LINE}")


def _code_lines(code: str) -> str:
    return LINE.join(f"<code>{line}</code>" for line in code.strip("\n").split("\n") if line.strip()) + LINE


def table_of(rows: list[list[Cell]]) -> str:
    """The rows as a plain table whose first one is its head when all of it is head cells; else the head is empty."""
    grid = _grid([row for row in rows if row])
    if not grid:
        return ""
    width = max(len(row) for row in grid)
    has_head = all(cell.is_head for cell in grid[0])
    if not has_head:
        grid.insert(0, [])
    lines = []
    for number, row in enumerate(grid):
        mark = "th" if number == 0 else "td"
        cells = [_bold(cell) if number and cell.is_head else cell.html for cell in row] + [""] * (width - len(row))
        lines.append("<tr>" + "".join(f"<{mark}>{cell}</{mark}>" for cell in cells) + "</tr>")
    return f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>"


def _bold(cell: Cell) -> str:
    """A head of a row, which Markdown has no mark for."""
    plain = cell.html and not cell.html.startswith("<strong>") and LINE not in cell.html
    return f"<strong>{cell.html}</strong>" if plain else cell.html


def _grid(rows: list[list[Cell]]) -> list[list[Cell]]:
    grid: list[list[Cell]] = []
    hanging: dict[int, tuple[Cell, int]] = {}  # column -> what hangs into the next rows, and how many
    for row in rows:
        line: list[Cell] = []
        waiting = list(reversed(row))
        hangs_to = max(hanging, default=-1)
        while (waiting or len(line) <= hangs_to) and len(line) < MAX_COLUMNS:
            column = len(line)
            if column in hanging:
                cell, left = hanging.pop(column)
                line.append(_again(cell))
                if left > 1:
                    hanging[column] = (cell, left - 1)
                continue
            if not waiting:
                line.append(Cell("", is_head=False))
                continue
            cell = waiting.pop()
            for offset in range(min(cell.columns, MAX_COLUMNS - column)):
                line.append(cell if offset == 0 else _again(cell))
                if cell.rows > 1:
                    hanging[column + offset] = (cell, cell.rows - 1)
        grid.append(line)
    return grid


def _again(cell: Cell) -> Cell:
    return cell if len(cell.html) <= MAX_REPEATED else Cell("", cell.is_head)
