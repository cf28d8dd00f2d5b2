"""The documentation site: all pages are linked and listed, all links lead somewhere, all code is run by some test."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from html import unescape

import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.render import pages
from tests import site
from tests.reference import MOST_EXAMPLES
from tests.test_docs import PAGES as EXECUTED
from tests.test_docs import ROOT

HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ELSEWHERE = {
    "docs/cli.md": "tests/cli/test_page.py",
    "docs/cxx.md": "tests/cli/test_cxx_page.py",
    "docs/ptoas.md": "tests/text/test_ptoas.py",
    "docs/torch.md": "tests/torch/test_page.py",
    "docs/sharded.md": "tests/sharded/test_page.py",
}
"""Pages whose blocks another test runs."""
WHOLE = "import numpy as np\nimport ptokit as pto\n\ntarget = "
"""What a whole program of the reference begins with."""


@cache
def texts() -> dict[str, str]:
    return site.all_pages()


def links(page: str) -> list[str]:
    found: list[str] = []
    site.outside_code(texts()[page], lambda part: found.extend(_targets(part)) or part)
    return found


def _targets(text: str) -> list[str]:
    return [link["to"] for link in site.LINK.finditer(re.sub(r"`[^`\n]+`", "", text))]


@cache
def anchors(page: str) -> frozenset[str]:
    """Addresses of a page's headings, as Python-Markdown makes them."""
    seen: Counter[str] = Counter()
    names = []
    for title in HEADING.findall(BLOCK.sub("", texts()[page])):
        words = unescape(re.sub(r"[`*\\]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)))
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())
        names.append(f"{slug}_{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(names)


def test_every_link_leads_to_a_page_and_a_heading_of_it() -> None:
    pictures = {f"pictures/{path.name}" for path in (ROOT / "docs/pictures").glob("*.svg")}
    for page in texts():
        for link in links(page):
            if "://" in link:
                assert link.startswith("https://"), (page, link)
                continue
            address, _, anchor = link.partition("#")
            to = (
                site.posixpath.normpath(site.posixpath.join(site.posixpath.dirname(page), address)) if address else page
            )
            assert to in texts() or to in pictures, (page, link)
            assert not anchor or anchor in anchors(to), (page, link)


def test_every_link_of_the_repository_leads_to_a_file() -> None:
    """The same pages read without the site."""
    for file in [name for name in site.places() if name.endswith(".md")]:
        text = re.sub(r"`[^`\n]+`", "", BLOCK.sub("", (ROOT / file).read_text(encoding="utf-8")))
        for link in (match["to"].partition("#")[0] for match in site.LINK.finditer(text)):
            assert not link or "://" in link or (ROOT / file).parent.joinpath(link).exists(), (file, link)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"[\w./-]+\.md", site.config(list(texts())).partition("\nnav:")[2])
    assert sorted(listed) == sorted(texts())


def test_pages_and_folders_differ_by_more_than_case() -> None:
    assert max(Counter(page.lower() for page in texts()).values()) == 1


def test_every_clause_decision_and_hazard_has_its_place() -> None:
    for name in spec.clauses():
        page, _, anchor = str(site.address_of(name)).partition("#")
        assert anchor in anchors(page), name
        assert spec.clauses()[name].kind in texts()[page]
    for name in spec.gaps():
        assert name.lower() in anchors("reference/decisions.md"), name
    for name in spec.hazards():
        assert str(site.address_of(name)) in texts(), name


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_a_reference_page_names_every_clause_in_scope(name: str) -> None:
    text = texts()[f"reference/{name}.md"]
    wanted = {clause.id for target in spec.FAMILIES for clause in pages.clauses_of(INSTRUCTIONS[name], target)}
    wanted |= {
        each.id for each in spec.hazards().values() if each.concerns(name) and set(each.levels) & {*spec.FAMILIES}
    }
    assert sorted(each for each in wanted if f"[{each}](" not in text) == []
    for target in spec.FAMILIES:
        assert f"## On {target}\n" in text


def test_documented_instructions_have_examples_and_errata() -> None:
    for name in ("mgather", "mscatter", "tscatter"):
        text = texts()[f"reference/{name}.md"]
        assert text.count("\nwith pto.target(target):\n") == MOST_EXAMPLES
        assert "## Errata of the source pages" in text and (name == "tscatter" or "-policies.svg)\n" in text)
        assert "## Hazards" in text and text.count("this does not.") == MOST_EXAMPLES
    assert sum("## Examples" in texts()[f"reference/{name}.md"] for name in INSTRUCTIONS) > 0.9 * len(INSTRUCTIONS)


def test_whole_examples_of_the_reference_run() -> None:
    blocks = {code for name in INSTRUCTIONS for _, code in BLOCK.findall(texts()[f"reference/{name}.md"])}
    programs = [code for code in blocks if WHOLE in code]
    assert len(programs) > 100
    for code in programs:
        names: dict[str, object] = {}
        exec(compile(code, "example.py", "exec"), names)
        assert names["np"] is np and names["pto"] is pto


def test_other_code_of_the_reference_is_that_of_the_conformance_tests() -> None:
    known = {code.strip() for each in spec.examples().values() for code in (each.meets, *each.breaks)}
    for page in (page for page in texts() if page.startswith("reference/") and "/api/" not in page):
        for language, code in BLOCK.findall(texts()[page]):
            if language == "python" and WHOLE not in code:
                assert code.strip() in known, page


def test_every_api_object_has_its_docstring_on_a_page() -> None:
    for name, value in site.api_objects().items():
        first = (value.__doc__ or "").strip().splitlines()[0]
        assert site._prose(first).split("`")[0] in texts()[site.api_page(name)], name


def test_a_page_of_the_api_has_methods_and_fields() -> None:
    text = texts()["reference/api/MachineReport.md"]
    assert "\n## to_html()\n" in text and "\n## memory\n" in text
    assert "pto.Tile(loc, dtype, rows, cols, *, valid=None" in texts()["reference/api/Tile.md"]
    assert "`pto.GatherOOB.Clamp` | `clamp`" in texts()["reference/api/GatherOOB.md"]


def test_tutorials_show_the_source_as_it_is() -> None:
    for name in site.EXAMPLES:
        source = (ROOT / f"examples/{name}.py").read_text(encoding="utf-8")
        blocks = [code for language, code in BLOCK.findall(texts()[f"tutorials/{name}.md"]) if language == "python"]
        assert any("@pto.kernel" in code for code in blocks) and all(code in source for code in blocks)
        assert "](../pictures/gallery-" in texts()[f"tutorials/{name}.md"]


def test_every_page_with_code_is_run_by_a_test() -> None:
    for path in (ROOT / "docs").glob("*.md"):
        blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
        if any(language == "python" for language, _ in blocks):
            assert f"docs/{path.name}" in (*EXECUTED, *ELSEWHERE), path.name
        for code in (code for language, code in blocks if language == "py"):
            compile(code, path.name, "exec")
    for page, test in ELSEWHERE.items():
        assert page in (ROOT / test).read_text(encoding="utf-8"), test
