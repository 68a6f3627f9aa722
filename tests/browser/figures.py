#!/usr/bin/env python3
"""Draws SVG files of the programs and of the docs as papers do, by rsvg-convert and CairoSVG, and checks their pixels.

    figures.py STUDY    gneiss-study; a renderer that is not installed is skipped by name, and without both the check is

A file has literal colors and fonts alone: no variable, class, style sheet or script. Its page is white, all its lines are
drawn in their colors, nothing else is black; a file that the program wrote has its values beside it as CSV.
"""

import csv
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import colors

SKIPPED = 77
PALETTE = colors.palettes()["light"]
LINES = 9  # one more than there are colors


def pixels(png):
    """Returns the width and rows of RGB of a PNG with 8 bits a channel, over white."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n", "is not a PNG"
    data, at, header = b"", 8, None
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", png[at + 8:at + 8 + size])
        elif kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += 12 + size
    width, height, depth, color, _, _, interlaced = header
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
    assert depth == 8 and interlaced == 0, header
    raw, rows, before = zlib.decompress(data), [], bytes(width * channels)
    for y in range(height):
        start = y * (width * channels + 1)
        kind, line = raw[start], bytearray(raw[start + 1:start + 1 + width * channels])
        for i in range(len(line)):
            left, up = line[i - channels] if i >= channels else 0, before[i]
            corner = before[i - channels] if i >= channels else 0
            if kind == 4:
                guess = left + up - corner
                nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            else:
                nearest = (0, left, up, (left + up) // 2)[kind]
            line[i] = (line[i] + nearest) & 255
        rows.append(bytes(line))
        before = rows[-1]
    found = []
    for row in rows:
        for x in range(width):
            p = row[x * channels:(x + 1) * channels]
            shown, alpha = (p[:1] * 3, p[1:]) if channels < 3 else (p[:3], p[3:])
            a = alpha[0] if alpha else 255
            found.append(tuple((v * a + 255 * (255 - a)) // 255 for v in shown))
    return width, found


def renderers():
    """Returns functions from an SVG file to PNG, by name."""
    found = {}
    if shutil.which("rsvg-convert"):
        found["rsvg-convert"] = lambda path: subprocess.run(["rsvg-convert", path], check=True, capture_output=True).stdout
    try:
        import cairosvg
        found["CairoSVG"] = lambda path: cairosvg.svg2png(url=path)
    except ImportError:
        pass
    for name in ("rsvg-convert", "CairoSVG"):
        if name not in found:
            print(f"skipped: {name} is not installed")
    return found


def series_of(text):
    """Returns the colors of series in a file, but for bars that are too thin to have a pixel of their own."""
    bars = [m for m in re.finditer(r'<rect[^>]* width="([0-9.]+)" height="([0-9.]+)"[^>]* fill="(#[0-9a-f]{6})"', text)]
    drawn = {m[3] for m in bars if min(float(m[1]), float(m[2])) >= 4}
    drawn |= set(re.findall(r'<path[^>]* (?:stroke|fill)="(#[0-9a-f]{6})"', text))
    return [color for name, color in sorted(PALETTE.items()) if re.fullmatch(r"c\d", name) and color in drawn]


def faults_of(path, render):
    """Returns what is wrong with an SVG file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = [f"has {word}" for word in ("var(", "<style", "class=", "style=", "<script", "url(", "@media", "transparent") if word in text]
    if not re.search(r'font-family="[^"]*Arial', text):
        found.append("has no font")
    if not re.search(r'aria-label="[^"]+"', text):
        found.append("has no text that stands for it")
    for name, draw in render.items():
        width, seen = pixels(draw(path))
        if seen[0] != (255, 255, 255) or seen[-1] != (255, 255, 255):
            found.append(f"{name} draws no white page")
        black = sum(max(p) < 24 for p in seen) / len(seen)
        if black > .001:
            found.append(f"{name} draws {black:.1%} in black")
        for color in series_of(text):
            wanted = tuple(int(color[i:i + 2], 16) for i in (1, 3, 5))
            count = sum(all(abs(a - b) <= 24 for a, b in zip(p, wanted)) for p in seen)
            if count < 12:
                found.append(f"{name} draws {count} pixels of {color}")
    if not series_of(text):
        found.append("has no series")
    return found


PLANTED = """<svg xmlns="http://www.w3.org/2000/svg" width="60" height="40" viewBox="0 0 60 40"><style>:root{--page:#fff}
.page{fill:var(--page)}</style><rect class="page" width="60" height="40"/><path d="M1 1" stroke="#064e94"/></svg>"""


def main():
    study, render = os.path.abspath(sys.argv[1]), renderers()
    images = sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/images/*.svg")))
    if not render:
        sys.exit(SKIPPED)
    faults = []
    with tempfile.TemporaryDirectory(prefix="gneiss-figures-") as work:
        def at(name):
            return os.path.join(work, name)

        def study_of(*arguments):
            subprocess.run([study, *arguments], check=True, stdout=subprocess.DEVNULL)

        with open(at("planted.svg"), "w", encoding="utf-8") as file:
            file.write(PLANTED)
        wrong = " ".join(faults_of(at("planted.svg"), render))
        for fault in ["var(", "<style", "class=", "no font", "no text", "draws 0 pixels of #064e94"] + [f"{name} draws no white page" for name in render]:
            if fault not in wrong:
                faults.append(f"the check misses '{fault}' in a file that has it: {wrong}")

        names = ["ComplEx", "read, planned"] + [f"line {i}" for i in range(2, LINES)]
        with open(at("log.jsonl"), "w", encoding="utf-8") as log:
            for i, name in enumerate(names):
                for x in range(1, 9):
                    metric = .2 + .05 * i + .02 * x
                    json.dump({"program": "p", "dataset": "d", "case": f"{name} @ {x}", "flags": "", "metrics": {"test": {"mrr": metric}},
                               "seconds": 1, "peak_rss_bytes": 1 << 20, "epoch": {"seconds": 1}}, log)
                    log.write("\n")
        study_of("curves", at("log.jsonl"), "--x-label", "dim", "--title", "MRR", "--out", at("out/mrr.svg"))
        with open(at("out/mrr.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        if rows[0] != ["dim", *names] or len(rows) != 9 or [float(v) for v in rows[8][:3]] != [8, .36, .41]:
            faults.append(f"mrr.csv is {rows}")
        with open(at("out/mrr.svg"), encoding="utf-8") as file:
            text = file.read()
        lines = re.findall(r'<path[^>]*stroke="(#[0-9a-f]{6})" stroke-width="2"(?: stroke-dasharray="([^"]*)")?', text)
        if len(set(lines)) != LINES:
            faults.append(f"{LINES} lines are drawn in {len(set(lines))} ways: {lines}")
        with open(at("mine.csv"), "w", encoding="utf-8") as file:
            file.write("mine")
        refused = subprocess.run([study, "curves", at("log.jsonl"), "--out", at("mine.svg")], capture_output=True, text=True, check=False)
        if refused.returncode == 0 or "mine.csv" not in refused.stderr or os.path.exists(at("mine.svg")):
            faults.append(f"a CSV file of the user's own is replaced: {refused}")
        for path in images:
            with open(os.path.splitext(path)[0] + ".csv", encoding="utf-8", newline="") as file:
                rows = list(csv.reader(file))
            if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
                faults.append(f"{os.path.basename(path)} has no table of values beside it")
        for path in [at("out/mrr.svg"), *images]:
            faults += [f"{os.path.relpath(path, work) if path.startswith(work) else os.path.basename(path)} {fault}" for fault in faults_of(path, render)]
    print("\n".join(faults) if faults else f"{1 + len(images)} files are drawn by {' and '.join(render)}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
