#!/usr/bin/env python3
"""Opens the pages that the programs write in a headless Chromium, on the screens of a phone and of a desk, light and dark.

    run.py BIN OUT      programs in BIN; writes pictures to OUT (those of docs: run.py build/browser/bin docs/images)

A page must say nothing on the console, fit the screen's width, and show plots with units whose text is legible, inside the
plot and free of overlaps. A run in progress must load its page again and keep its place. Needs `chromium` in the path.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from chromium import Chromium

SCREENS = [(width, dark) for width in (360, 1280) for dark in (False, True)]
LARGEST_PICTURE = 100_000  # bytes
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
  for (const e of document.querySelectorAll('h1, h2, p, span:not(.key), b, td, th, code, footer'))
    if (shown(e) && e.textContent && contrast(e, 'color') < 4.5) found.push('has faint text ' + text(e));
  for (const plot of document.querySelectorAll('svg')) {
    if (!shown(plot)) continue;
    const name = 'the plot "' + plot.getAttribute('aria-label') + '" ', frame = plot.getBoundingClientRect();
    const texts = [...plot.querySelectorAll('text')].filter(t => t.textContent);
    if (!texts.some(t => t.classList.contains('unit'))) found.push(name + 'has no label at an axis');
    if (!texts.some(t => t.classList.contains('tick'))) found.push(name + 'has no ticks');
    if (!plot.querySelector('path, circle, rect:not(.hit):not(.free):not(.page)')) found.push(name + 'is empty');
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
<div style="width:2000px">wide</div><p style="color:#eee">faint</p><svg aria-label="p" width="300" height="50" viewBox="0 0 600 100">
<text x="0" y="40" font-size="12">small</text><text x="5" y="40" font-size="12">over</text><text x="590" y="90">cut off</text>
</svg></body></html>"""
PLANTED_FAULTS = ["console: hello", "exception: ", "failed request: ", "pixels wide", "faint text", "no label", "no ticks", "is empty",
                  "has text of 6.0 pixels", "cuts off", 'draws "small" over "over"']


def run(program, *arguments):
    subprocess.run([os.path.join(programs, program), *arguments], check=True, stdout=subprocess.DEVNULL)


def faults_of(browser, page):
    """Opens a page, and returns what is wrong with it."""
    browser.messages.clear()
    browser.open(page)
    return browser.evaluate(CHECK) + browser.messages


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
                                "--negatives", "100", "--eval-every", "1", "--eval-edges", "200", "--memory", "1GiB", "--quiet"])
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
            browser.wait_for(lambda: browser.loads() > loads, 30, "the page to load itself again")
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
        expect("no news for 10 minutes" in browser.evaluate("document.querySelector('.badge').textContent"), "a page of a killed run does not say so")
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait()
    expect(code == 130, f"the interrupted run ended with {code}")
    check(browser, "an interrupted run", page)
    expect(browser.evaluate("document.querySelectorAll('script, noscript').length") == 0, "the page of a run that has ended has a script")
    expect(browser.evaluate("document.querySelector('.badge').textContent") == "interrupted", "an interrupted run is not called so")


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
        check(browser, "three runs compared", "compare.html")
        check_live(browser)
        picture(browser, "disk/report.html", "report.png", 1280, 900, dark=False)
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
