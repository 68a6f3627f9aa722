#!/usr/bin/env python3
"""Checks the colors of plots and pages, which kit/report/plot.cpp lists.

    colors.py [FILE]    default: examples/programs/kit/report/plot.cpp of this tree

For deuteranopia as Machado, Oliveira and Fernandes (2009) simulate it at full severity, each pair of series has a distance
of at least 15 by CIEDE2000 (Sharma, Wu and Dalal 2005), on light and on dark pages. Text has a contrast of at least 4.5 to
the page by WCAG 2.1, lines other than the grid, which guides and shows no value, one of 3. Exit 1 with what is wrong.
"""

import math
import os
import re
import sys

DISTANCE, TEXT, LINE = 15, 4.5, 3
DEUTERANOPIA = ((.367322, .860646, -.227968), (.280085, .672501, .047413), (-.011820, .042940, .968881))
XYZ = ((.4124564, .3575761, .1804375), (.2126729, .7151522, .0721750), (.0193339, .1191920, .9503041))


def rgb(color):
    return tuple(int(color[i:i + 2], 16) for i in (1, 3, 5))


def linear(color):
    return [v / 12.92 if v <= .04045 else ((v + .055) / 1.055) ** 2.4 for v in (c / 255 for c in rgb(color))]


def product(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def lab(light):
    """Returns CIE L*a*b* of linear RGB."""
    white = product(XYZ, (1, 1, 1))
    f = [t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116
         for t in (v / w for v, w in zip(product(XYZ, [min(max(v, 0), 1) for v in light]), white))]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def ciede2000(one, other):
    (l1, a1, b1), (l2, a2, b2) = one, other
    c = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = .5 * (1 - math.sqrt(c ** 7 / (c ** 7 + 25 ** 7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1)) % 360, math.degrees(math.atan2(b2, a2)) % 360
    turn = 0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    dl, dc, dh = l2 - l1, c2 - c1, 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    l, c = (l1 + l2) / 2, (c1 + c2) / 2
    h = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    t = 1 - .17 * math.cos(math.radians(h - 30)) + .24 * math.cos(math.radians(2 * h)) \
        + .32 * math.cos(math.radians(3 * h + 6)) - .2 * math.cos(math.radians(4 * h - 63))
    sl, sc, sh = 1 + .015 * (l - 50) ** 2 / math.sqrt(20 + (l - 50) ** 2), 1 + .045 * c, 1 + .015 * c * t
    rt = -2 * math.sqrt(c ** 7 / (c ** 7 + 25 ** 7)) * math.sin(math.radians(60 * math.exp(-((h - 275) / 25) ** 2)))
    return math.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rt * dc / sc * dh / sh)


def contrast(one, other):
    bright, dim = sorted((product(XYZ, linear(c))[1] for c in (one, other)), reverse=True)
    return (bright + .05) / (dim + .05)


def closest(series):
    """Returns the least distance of two colors for deuteranopia, and the pair."""
    seen = [lab(product(DEUTERANOPIA, linear(c))) for c in series]
    return min((ciede2000(seen[i], seen[j]), series[i], series[j]) for i in range(len(series)) for j in range(i))


def faults_of(palette):
    """Returns what is wrong with colors by role: page, ink, soft, axis, c0, c1 …"""
    series = [palette[name] for name in sorted(palette) if re.fullmatch(r"c\d", name)]
    found = []
    distance, one, other = closest(series)
    if distance < DISTANCE:
        found.append(f"{one} and {other} have a distance of {distance:.1f} for deuteranopia, less than {DISTANCE}")
    for role, least in [("ink", TEXT), ("soft", TEXT), ("axis", LINE)]:
        if contrast(palette[role], palette["page"]) < least:
            found.append(f"{role} has a contrast of {contrast(palette[role], palette['page']):.2f}, less than {least}")
    for color in series:
        if contrast(color, palette["page"]) < LINE:
            found.append(f"{color} has a contrast of {contrast(color, palette['page']):.2f}, less than {LINE}")
    return found


def palettes(path=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/programs/kit/report/plot.cpp")):
    """Returns the light and the dark palette in the source of plots."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    rows = re.findall(r'\{"(\w+)", "(#[0-9a-f]{6})", "(#[0-9a-f]{6})"\}', text)
    return {"light": {name: light for name, light, _ in rows}, "dark": {name: dark for name, _, dark in rows}}


def main():
    both = palettes(*sys.argv[1:])
    # The formula, by pairs of its authors; then a palette that is wrong in each way.
    for one, other, known in [((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425), ((50, -1, 2), (50, 0, 0), 2.3669),
                              ((50, 2.5, 0), (73, 25, -18), 27.1492), ((2.0776, .0795, -1.135), (.9033, -.0636, -.5514), .9082)]:
        assert abs(ciede2000(one, other) - known) < 1e-4, (one, other, ciede2000(one, other))
    assert abs(contrast("#000000", "#ffffff") - 21) < 1e-3
    wrong = faults_of({"page": "#ffffff", "ink": "#aaaaaa", "soft": "#999999", "axis": "#dddddd", "c0": "#33916f", "c1": "#b8446c",
                       "c2": "#e0e0e0"})
    assert len(wrong) == 5, wrong
    found = []
    for name, palette in both.items():
        assert len([c for c in palette if re.fullmatch(r"c\d", c)]) == 8, f"the {name} palette is not read: {palette}"
        found += [f"{name}: {fault}" for fault in faults_of(palette)]
        distance, one, other = closest([palette[f"c{i}"] for i in range(8)])
        print(f"{name}: least distance {distance:.1f} ({one}, {other}), least contrast of a series "
              f"{min(contrast(palette[f'c{i}'], palette['page']) for i in range(8)):.2f}")
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
