"""Pictures of reports for the documentation: `make screenshots`, or `python -m tests.report.screenshots FOLDER`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import ptokit as pto
from ptokit.lang.live import import_file
from ptokit.report.model import page_of, report_data
from tests.report.browser import PHONE, OpenPage, missing, started
from tests.report.launches import clean, cube, faulty

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_BYTES = 150_000
WIDE = {"width": 1100, "height": 900}
MARGIN = 14
COLOURS = 128


@dataclass(frozen=True)
class Shot:
    """A picture of some sections of a page."""

    page: str
    sections: Sequence[str]
    hidden: str = ""
    """What is left out, as a selector."""
    size: tuple[str, dict[str, int]] = ("", WIDE)
    schemes: Sequence[str] = ("light", "dark")


REST = "#summary .body > :not(.cards), #timeline details, #memory details, #timeline output, #memory output"
SHOTS = {
    "report": Shot("paged_kv", ("summary", "timeline", "memory"), REST),
    "report-phone": Shot("paged_kv", ("summary", "timeline"), REST, ("phone", PHONE)),
    "report-finding": Shot("faulty", ("source",), schemes=("light",)),
    "report-access": Shot("clean", ("access",), "#access details", schemes=("light",)),
    "report-tiles": Shot("cube", ("tiles",), schemes=("light",)),
}
"""By the name of the picture; those in two schemes have it in their name."""


def paged_kv() -> list[pto.MachineReport]:
    """The example of a paged KV cache on all targets."""
    example = import_file(str(ROOT / "examples/paged_kv_gather.py"))
    case = example.make_case(np.random.default_rng(0))
    lanes = pto.MachineOptions(lanes=True)
    return [
        example.paged_kv_gather[4](**{name: array.copy() for name, array in case.items()}, **on, options=lanes)
        for on in ({"target": target, "engine": "machine"} for target in ("a5", "a2a3", "cpu"))
    ]


def main(folder: Path) -> int:
    """Make all pictures; the status is 1 if one is too large."""
    if lacks := missing():
        print(lacks, file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    results = {"paged_kv": paged_kv, "faulty": lambda: [faulty()], "clean": lambda: [clean()], "cube": lambda: [cube()]}
    sizes: list[int] = []
    with tempfile.TemporaryDirectory() as name, started() as browser:
        pages = {page: Path(name, f"{page}.html") for page in results}
        for page, made in results.items():
            pages[page].write_text(page_of([report_data(made())]), encoding="utf-8")
        for shot_name, shot in SHOTS.items():
            for scheme in shot.schemes:
                file = folder / f"{shot_name}{f'-{scheme}' if len(shot.schemes) > 1 else ''}.png"
                take(browser, pages[shot.page], shot, scheme, file)
                sizes.append(file.stat().st_size)
                print(f"{file}: {sizes[-1]:,} bytes")
    return int(max(sizes) > MOST_BYTES)


def take(browser: Any, page: Path, shot: Shot, scheme: str, file: Path) -> None:
    """One picture."""
    opened = OpenPage(browser, page, size=shot.size[1], scheme=scheme).page
    others = f"main section:not({', '.join(f'#{name}' for name in shot.sections)})"
    hidden = ", ".join(filter(None, [others, shot.hidden]))
    opened.add_style_tag(content=f"header {{ position: static !important; }} {hidden} {{ display: none !important; }}")
    opened.evaluate("window.dispatchEvent(new Event('resize'))")
    last = opened.locator(f"#{shot.sections[-1]}").bounding_box()
    first = opened.locator("header" if "summary" in shot.sections else f"#{shot.sections[0]}").bounding_box()
    top = max(0, first["y"] - MARGIN)
    clip = {"x": 0, "y": top, "width": shot.size[1]["width"], "height": last["y"] + last["height"] + MARGIN - top}
    picture = Image.open(BytesIO(opened.screenshot(full_page=True, clip=clip)))
    opened.close()
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
