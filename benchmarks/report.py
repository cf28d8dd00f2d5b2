"""Pages of reports: the time to make one, its size, and how fast it zooms.

    python benchmarks/report.py

Required: the page of the example of a paged KV cache, on all targets, is made in under 3 s by a process of its own and
is smaller than 2 MB; a zoom step of a page with 1,000 pieces of work takes under 100 ms, until the picture is on the
screen. Zooming needs chromium and playwright (`pip install "ptokit[browser]"`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

from examples import paged_kv_gather as example  # noqa: E402
from ptokit.report.model import page_of, report_data  # noqa: E402
from tests.report import browser as browsers  # noqa: E402
from tests.report.launches import long  # noqa: E402

REPEATS = 5
MOST_SECONDS, MOST_BYTES, MOST_MILLISECONDS = 3.0, 2_000_000, 100.0
WORKS = (1_000, 10_000)
STEPS = 20
STEP = """async ([factor]) => {
  const frame = () => new Promise(requestAnimationFrame), began = performance.now();
  window.ptokitReport.zoom(factor);
  const drawn = performance.now();
  await frame(); await frame();
  return [drawn - began, performance.now() - began];
}"""
"""Milliseconds of the script, and until the next frame after the one that shows the picture."""


def make_page(folder: Path) -> tuple[float, int]:
    """Seconds of `ptokit report`, and the bytes of the page."""
    case = example.make_case(np.random.default_rng(0))
    for name, array in case.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    words = [word for name in case for word in ("--arg", f"{name}={name}.npy")]
    kernel, page = f"{example.__file__}:paged_kv_gather", folder / "report.html"
    times: list[float] = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "ptokit", "report", kernel, "--grid", "16", *words, "-o", str(page)],
            check=True, cwd=folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        times.append(time.perf_counter() - began)
    return median(times[1:]), page.stat().st_size


def zoom_steps(folder: Path, browser: Any, works: int) -> tuple[float, float]:
    """Milliseconds of a zoom step: of the script, and until its picture is shown; medians, in and out."""
    file = folder / f"{works}.html"
    file.write_text(page_of([report_data([long(works)])]), encoding="utf-8")
    page = browsers.OpenPage(browser, file).page
    page.locator("#timeline").scroll_into_view_if_needed()
    found = [page.evaluate(STEP, [factor]) for factor in [0.7] * STEPS + [1 / 0.7] * STEPS]
    page.close()
    return median(each[0] for each in found), median(each[1] for each in found)


def main() -> int:
    """Print the figures; the status is 1 if one is not as required."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, size = make_page(folder)
        failed = seconds >= MOST_SECONDS or size >= MOST_BYTES
        print(
            f"paged KV cache: {size:,} bytes in {seconds:.2f} s (required: under {MOST_BYTES:,} in {MOST_SECONDS:g} s)"
        )
        if lacks := browsers.missing():
            print(f"zoom steps are not measured: {lacks}")
            return int(failed)
        with browsers.started() as browser:
            for works in WORKS:
                script, shown = zoom_steps(folder, browser, works)
                print(f"{works:,} pieces of work: a zoom step takes {script:.1f} ms, {shown:.1f} ms until it is shown")
                failed |= works == WORKS[0] and shown >= MOST_MILLISECONDS
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
