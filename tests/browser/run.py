#!/usr/bin/env python3
"""Opens the pages that the programs write in a headless Chromium, on the screens of a phone and of a desk, light and dark.

    run.py BIN OUT      programs in BIN; writes pictures to OUT (those of docs: run.py build/quick/bin docs/images)

A page must say nothing on the console, fit the screen's width, and show plots with units whose text is legible, inside the
plot and free of overlaps, whose lines stand out from the page, which have words that stand for them, and whose links save
SVG and CSV that other programs read (figures.py). A run in progress must load its page again and keep its place; an
interrupted one says how far it came and what continues it, and one whose process is gone says since when nothing came.
Needs `chromium` in the path.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

import colors
import figures
from chromium import Chromium

SCREENS = [(width, dark) for width in (360, 1280) for dark in (False, True)]
LARGEST_PICTURE = 125_000  # bytes
faults = []

CHECK = """(() => {
  const found = [], shown = e => e.getClientRects().length > 0, text = t => '"' + t.textContent.slice(0, 40) + '"';
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) found.push('is ' + root.scrollWidth + ' pixels wide');
  const luminance = color => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (e, property) => {
    let behind = e;
    while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)' && behind.parentElement) behind = behind.parentElement;
    const [a, b] = [luminance(getComputedStyle(e)[property]), luminance(getComputedStyle(behind).backgroundColor)];
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  };
  for (const box of document.querySelectorAll('.box.table'))
    if (box.querySelector('.stacks') && root.clientWidth < 700 && box.scrollWidth > box.clientWidth + 1) found.push('has a table of runs to scroll');
  for (const plots of document.querySelectorAll('.plots')) {
    const links = [...(plots.closest('.box') || plots).querySelectorAll('.save a[download]')].map(a => a.href.slice(0, 14)).join();
    if (links !== 'data:image/svg,data:text/csv;') found.push('has a plot without links that save it');
  }
  for (const e of document.querySelectorAll('h1, h2, p, a, span:not(.key), b, td, th, code, footer'))
    if (shown(e) && e.textContent && contrast(e, 'color') < 4.5) found.push('has faint text ' + text(e));
  for (const plot of document.querySelectorAll('svg')) {
    if (!shown(plot)) continue;
    const name = 'the plot "' + plot.getAttribute('aria-label') + '" ', frame = plot.getBoundingClientRect();
    const texts = [...plot.querySelectorAll('text')].filter(t => t.textContent);
    if (!texts.some(t => t.classList.contains('unit'))) found.push(name + 'has no label at an axis');
    if (!texts.some(t => t.classList.contains('tick'))) found.push(name + 'has no ticks');
    if (!plot.querySelector('path, rect:not(.hit):not(.free):not(.page)')) found.push(name + 'is empty');
    if (!/: .*\\d/.test(plot.getAttribute('aria-label'))) found.push(name + 'has no words that stand for it');
    for (const [some, property] of [['.curve, .zero, .mark, .limit, .over-limit', 'stroke'], ['path[fill], rect[fill]', 'fill']])
      for (const e of plot.querySelectorAll(some))
        if (contrast(e, property) < 3) found.push(name + 'has a faint ' + property + ' ' + getComputedStyle(e)[property]);
    const boxes = texts.filter(t => !t.hasAttribute('transform')).map(t => [t, t.getBoundingClientRect()]);
    for (const t of texts) {
      const size = parseFloat(getComputedStyle(t).fontSize) * plot.getScreenCTM().d;
      if (size < 11) found.push(name + 'has text of ' + size.toFixed(1) + ' pixels');
      if (contrast(t, 'fill') < 4.5) found.push(name + 'has faint text ' + text(t));
    }
    boxes.forEach(([t, a], i) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        found.push(name + 'cuts off ' + text(t));
      for (const [u, b] of boxes.slice(i + 1))
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
          found.push(name + 'draws ' + text(t) + ' over ' + text(u));
    });
  }
  return found;
})()"""

PLANTED = """<!DOCTYPE html><html><head><meta name="viewport" content="width=device-width, initial-scale=1"/></head>
<body style="background:#fff"><script>console.log("hello"); missing()</script><img src="absent.png"/>
<div style="width:2000px">wide</div><p style="color:#eee">faint</p><div class="box table"><div class="stacks" style="width:3000px">wide</div></div>
<div class="plots"><svg aria-label="p" width="300" height="50" viewBox="0 0 600 100">
<text x="0" y="40" font-size="12">small</text><text x="5" y="40" font-size="12">over</text><text x="590" y="90">cut off</text></svg>
<svg aria-label="q" width="30" height="20"><path class="curve" d="M0 0h9" stroke="#ddd"/><rect width="9" height="9" fill="#eee"/></svg>
</div></body></html>"""
PLANTED_FAULTS = ["console: hello", "exception: ", "failed request: ", "pixels wide", "faint text", "no label", "no ticks", "is empty",
                  "has text of 6.0 pixels", "cuts off", 'draws "small" over "over"', "faint stroke", "faint fill", "no words",
                  "without links", "table of runs to scroll"]


def run(program, *arguments):
    subprocess.run([os.path.join(programs, program), *arguments], check=True, stdout=subprocess.DEVNULL)


def faults_of(browser, page):
    """Opens a page, and returns what is wrong with it."""
    browser.messages.clear()
    browser.open(page)
    return browser.evaluate(CHECK) + browser.messages


def check_saved(browser, name):
    """Saves the plots of the open page, and draws them as other programs do."""
    render = figures.renderers()
    links = browser.evaluate("[...document.querySelectorAll('.save a')].map(a => [a.download, a.href])")
    for file, link in links:
        text = urllib.parse.unquote(link.split(",", 1)[1])
        if file.endswith(".csv"):
            rows = text.splitlines()
            expect(len(rows) > 1 and "," in rows[0], f"{name}: {file} is '{text[:80]}'")
            continue
        with open("saved.svg", "w", encoding="utf-8") as saved:
            saved.write(text)
        for fault in figures.faults_of("saved.svg", render):
            expect(False, f"{name}: {file} {fault}")


def check_colors(browser, page):
    """The colors that the browser has are those of colors.py, light and dark."""
    for dark in (False, True):
        browser.screen(1280, 800, dark)
        browser.open(page)
        palette = {role: browser.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{role}').trim()")
                   for role in ["page", "ink", "soft", "axis"] + [f"c{i}" for i in range(8)]}
        for fault in colors.faults_of(palette):
            expect(False, f"{'dark' if dark else 'light'}: {fault}")


def check(browser, name, page):
    for width, dark in SCREENS:
        browser.screen(width, 800, dark)
        for fault in dict.fromkeys(faults_of(browser, page)):
            expect(False, f"{name}, {width} pixels, {'dark' if dark else 'light'}: {fault}")
    print(f"{name}: {browser.evaluate('document.querySelectorAll(`.plots`).length')} plots", flush=True)


def expect(condition, what):
    if not condition:
        faults.append(what)
        print("FAULT:", what, flush=True)


def picture(browser, page, name, width, height, dark, scale=1):
    browser.screen(width, 800, dark, scale)
    browser.open(page)
    path = os.path.join(out, name)
    browser.picture(path, height)
    expect(os.path.getsize(path) <= LARGEST_PICTURE, f"{path} has {os.path.getsize(path)} bytes, more than {LARGEST_PICTURE}")


def check_live(browser):
    """A page that is loaded while the run goes on, and after it."""
    page = "live/report.html"
    process = subprocess.Popen([os.path.join(programs, "gneiss-marius"), "train", "data", "--out", "live", "--epochs", "10000", "--dim", "16",
                                "--negatives", "100", "--eval-every", "1", "--eval-edges", "200", "--early-stop", "0", "--memory", "1GiB", "--quiet"])
    try:
        for _ in range(300):
            if os.path.exists("live/metrics.jsonl") and os.path.getsize("live/metrics.jsonl") > 0 and os.path.exists(page):
                break
            time.sleep(.1)
        browser.screen(360, 800, False)
        browser.open(page)
        loads, texts = browser.loads(), []
        expect(browser.evaluate("document.querySelector('.badge').textContent") == "running", "a run in progress is not called running")
        for _ in range(2):  # the second page has an epoch and its plots
            browser.evaluate("scrollTo(0, 400)")
            place, text = browser.evaluate("scrollY"), browser.evaluate("document.body.innerText")
            expect(place > 0, "the page of a run in progress does not scroll")
            loads = browser.loads()
            browser.wait_for(lambda: browser.loads() > loads, 90, "the page to load itself again")
            time.sleep(.3)
            moved = browser.evaluate("scrollY") - place  # text above may have grown by a line
            expect(abs(moved) <= 24, f"a page that loads itself again moves by {moved} pixels")
            texts.append(text != browser.evaluate("document.body.innerText"))
        expect(all(texts), "a page that loads itself again shows nothing new")
        check(browser, "a run in progress", page)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        with open("silent.html", "w", encoding="utf-8") as file:  # written ten minutes before
            file.write(re.sub(r"(Date\.now\(\) / 1000 - )(\d+)", lambda m: m[1] + str(int(m[2]) - 600), text))
        browser.open("silent.html")
        expect("nothing came since" in browser.evaluate("document.querySelector('.badge').textContent"), "a page of a killed run does not say so")
        expect(browser.evaluate("document.querySelector('#late').innerText").rstrip().endswith("gneiss-marius train --resume --out live"),
               "a page of a killed run does not say what continues it")
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait()
    expect(code == 130, f"the interrupted run ended with {code}")
    check(browser, "an interrupted run", page)
    expect(browser.evaluate("document.querySelectorAll('script, noscript').length") == 0, "the page of a run that has ended has a script")
    expect(browser.evaluate("document.querySelector('.badge').textContent") == "interrupted", "an interrupted run is not called so")
    said = browser.evaluate("document.body.innerText")
    expect(re.search(r"Interrupted with \d+ of 10000 epochs done", said), "an interrupted run does not say how far it came")
    expect(re.search(r"epoch \d+ of 10000, \w+, loss \d", said), "an interrupted run does not say its loss")
    command = shlex.split(browser.evaluate("[...document.querySelectorAll('header code')].at(-1).innerText"))
    expect(command[0] == "gneiss-marius", f"an interrupted run is continued by {command}")
    with subprocess.Popen([os.path.join(programs, command[0]), *command[1:], "--quiet"], stdout=subprocess.DEVNULL) as process:
        time.sleep(2)
        expect(process.poll() is None, f"the command that continues a run ends with {process.poll()}")
        run("gneiss-study", "report", "live", "--out", "held.html")
        process.send_signal(signal.SIGKILL)
    run("gneiss-study", "report", "live", "--out", "gone.html", "--force")
    for file, status in [("held.html", "running"), ("gone.html", "interrupted")]:
        browser.open(file)
        seen = browser.evaluate("document.querySelector('td[data-title=status]')?.innerText || ''")
        expect(seen == status, f"a run is called '{seen}', not '{status}'")
    os.remove("live/run.json")  # as of a run that was killed before any end
    run("gneiss-study", "report", "live", "--out", "gone.html", "--force")
    browser.open("gone.html")
    expect("nothing came since" in browser.evaluate("document.body.innerText"), "a run whose process is gone is called running")


def main():
    with Chromium() as browser:
        with open("planted.html", "w", encoding="utf-8") as file:
            file.write(PLANTED)
        browser.screen(360, 800, False)
        found = " ".join(faults_of(browser, "planted.html"))
        for fault in PLANTED_FAULTS:
            expect(fault in found, f"the check misses '{fault}' in a page that has it: {found}")

        run("gneiss-data", "get", "debian", "--out", "data", "--quiet")
        link = ["train", "data", "--eval-every", "1", "--eval-edges", "1000", "--quiet"]
        run("gneiss-marius", *link, "--dim", "64", "--epochs", "5", "--store", "disk", "--memory", "96MiB", "--staleness", "8", "--out", "disk")
        run("gneiss-marius", *link, "--dim", "64", "--epochs", "5", "--memory", "3GiB", "--staleness", "0", "--trace", "trace.json", "--out", "memory")
        run("gneiss-marius", *link, "--dim", "64", "--epochs", "1", "--lr", "0.02", "--no-eval", "--memory", "3GiB", "--out", "short")
        run("gneiss-data", "generate", "planted", "--nodes", "3000", "--edges", "30000", "--classes", "5", "--num-features", "16", "--task", "node",
            "--train-fraction", ".3", "--out", "nodes", "--quiet")
        run("gneiss-mariusgnn", "train", "nodes", "--epochs", "6", "--layers", "sage:16,sage", "--fanout", "5,5", "--memory", "1GiB", "--out", "gnn", "--quiet")
        run("gneiss-study", "report", "disk", "memory", "short", "--out", "compare.html")
        for name in ("disk", "memory", "short", "gnn"):
            check(browser, f"the run '{name}'", name + "/report.html")
            browser.screen(1280, 800, False)
            browser.open(name + "/report.html")
            check_saved(browser, name)
        check(browser, "three runs compared", "compare.html")
        check_colors(browser, "compare.html")
        check_live(browser)
        run("gneiss-study", "report", "disk", "memory", "short", "gnn", "live", "--out", "five.html")
        check(browser, "five runs of two tasks", "five.html")
        check_saved(browser, "five runs")
        titles = browser.evaluate("[...document.querySelectorAll('h2')].map(h => h.innerText)")
        expect(sum("node classification" in t for t in titles) >= 2 and sum("link prediction" in t for t in titles) >= 2,
               f"runs of two tasks stand together: {titles}")
        rows = browser.evaluate("[...document.querySelectorAll('.stacks')].map(t => t.rows.length - 1)")
        expect(rows[0] == 4, f"tables of runs have {rows} rows")
        head = browser.evaluate("[...document.querySelectorAll('th')].map(t => t.innerText)")
        expect(not {"out", "quiet", "trace", "no-report", "json"} & set(head), f"flags of output differ: {head}")
        picture(browser, "disk/report.html", "report.png", 1280, 820, dark=False)
        picture(browser, "disk/report.html", "report-phone.png", 360, 1150, dark=True)
        picture(browser, "compare.html", "compare-runs.png", 1280, 720, dark=False)


if len(sys.argv) != 3:
    sys.exit("usage: run.py BIN OUT")
programs, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.makedirs(out, exist_ok=True)
work = tempfile.mkdtemp(prefix="gneiss-pages-")
os.chdir(work)
try:
    main()
finally:
    os.chdir("/")
    shutil.rmtree(work)
print(f"{len(faults)} faults" if faults else f"all pages are fine; pictures in {out}")
sys.exit(1 if faults else 0)
