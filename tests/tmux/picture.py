#!/usr/bin/env python3
"""Turns what `tmux capture-pane -e -p` prints into an SVG: picture.py < capture > picture.svg

Knows the sixteen colours, the 256 and the true ones, bold, dim, italic, underline and reverse.
The captures come from session.sh; the pictures are those of assets/screens.
"""

import html
import re
import sys
import unicodedata

ANSI = [
    "#1c1f24", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#c8ccd4",
    "#5c6370", "#ef7b85", "#a8d58a", "#f0cc8b", "#74bdf7", "#d58be8", "#66c6d2", "#ffffff",
]
TEXT, BACK, DIM = "#d7dae0", "#1c1f24", 0.6
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 14


def colour_of(codes):
    """Reads what follows 38 or 48; returns the colour and how many numbers it took."""
    if codes[:1] == [5] and len(codes) > 1:
        number = codes[1]
        if number < 16:
            return ANSI[number], 2
        if number < 232:
            steps = [0, 95, 135, 175, 215, 255]
            number -= 16
            parts = [steps[number // 36], steps[number // 6 % 6], steps[number % 6]]
        else:
            parts = [8 + 10 * (number - 232)] * 3
        return "#%02x%02x%02x" % tuple(parts), 2
    if codes[:1] == [2] and len(codes) > 3:
        return "#%02x%02x%02x" % tuple(codes[1:4]), 4
    return None, 0


def apply(style, codes):
    style = dict(style)
    at = 0
    while at < len(codes):
        code = codes[at]
        at += 1
        if code == 0:
            style = {}
        elif code in (1, 2, 3, 4, 7):
            style[code] = True
        elif code == 22:
            style.pop(1, None), style.pop(2, None)
        elif code in (23, 24, 27):
            style.pop(code - 20, None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["fg"] = ANSI[code - 30 if code < 90 else code - 82]
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style["bg"] = ANSI[code - 40 if code < 100 else code - 92]
        elif code in (38, 48):
            colour, taken = colour_of(codes[at:])
            style["fg" if code == 38 else "bg"] = colour
            at += taken
        elif code in (39, 49):
            style.pop("fg" if code == 39 else "bg", None)
    return style


def width_of(text):
    def cells(character):
        if unicodedata.combining(character):
            return 0
        return 2 if unicodedata.east_asian_width(character) in "WF" else 1

    return sum(map(cells, text))


def runs_of(line, style):
    """Returns the stretches of a line with their styles, and the style it ends with."""
    runs = []
    for part in re.split(r"(\x1b\[[0-9;:]*m|\x1b\]8;[^\x1b\x07]*(?:\x07|\x1b\\)|[\x0e\x0f])", line):
        found = re.fullmatch(r"\x1b\[([0-9;:]*)m", part)
        if found:
            style = apply(style, [int(code or 0) for code in re.split("[;:]", found[1])])
        elif part and part[0] not in "\x1b\x0e\x0f":
            runs.append((part, style))
    return runs, style


def draw(runs, row):
    shapes, column = [], 0
    for text, style in runs:
        cells = width_of(text)
        fg, bg = style.get("fg") or TEXT, style.get("bg")
        if style.get(7):
            fg, bg = bg or BACK, fg
        x, y = MARGIN + column * CELL_WIDTH, MARGIN + row * CELL_HEIGHT
        size = f'width="{cells * CELL_WIDTH:.1f}"'
        if bg:
            shapes.append(f'<rect x="{x:.1f}" y="{y}" {size} height="{CELL_HEIGHT}" fill="{bg}"/>')
        looks = f'fill="{fg}"'
        looks += ' font-weight="bold"' if style.get(1) else ""
        looks += f' opacity="{DIM}"' if style.get(2) else ""
        looks += ' font-style="italic"' if style.get(3) else ""
        looks += ' text-decoration="underline"' if style.get(4) else ""
        if text.strip():
            length = f'textLength="{cells * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
            words = html.escape(text)
            shapes.append(f'<text x="{x:.1f}" y="{y + 13}" {length} {looks}>{words}</text>')
        column += cells
    return shapes, column


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    shapes, columns, style = [], 80, {}
    for row, line in enumerate(lines):
        runs, style = runs_of(line, style)
        drawn, width = draw(runs, row)
        shapes += drawn
        columns = max(columns, width)
    width = 2 * MARGIN + columns * CELL_WIDTH
    height = 2 * MARGIN + len(lines) * CELL_HEIGHT
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" font-family="ui-monospace, Menlo, Consolas, '
        f'\'DejaVu Sans Mono\', monospace" font-size="14" xml:space="preserve">'
    )
    print(f'<rect width="100%" height="100%" rx="8" fill="{BACK}"/>')
    print("\n".join(shapes))
    print("</svg>")


if __name__ == "__main__":
    main()
