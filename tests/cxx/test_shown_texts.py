"""Places in C++ sources: `#line` may name any file, and only texts of the source's own files are shown."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cli.commands import app
from ptokit.cxx.names_in_source import LONGEST, MOST_BYTES, SourceTexts
from ptokit.lines import lines_of
from tests.cxx.building import COMPILER

needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SECRET = "the secret of the user"
STEP = """
AICORE inline void stepNUMBER(Tile<TileType::Vec, float, 1, 64>& a, Row& from) {
    TLOAD(a, from);
#line 1 "NAMED"
    TMULS(a, a, 2.0f); // shown
}
"""
HEAD = """\
#include <pto/pto-inst.hpp>
using namespace pto;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>>;
"""
KERNEL = """
__global__ AICORE void scaled(__gm__ float* x, __gm__ float* out) {
    Tile<TileType::Vec, float, 1, 64> a;
    TASSIGN(a, 0x0);
    Row from(x), to(out);
    STEPS
    TSTORE(to, a);
}
extern "C" void launch(float* x, float* out, void* stream) { scaled<<<1, nullptr, stream>>>(x, out); }
"""


def kernel(*named: str) -> str:
    """A source with an unordered call in each of some files; without any, in itself."""
    steps = [STEP.replace("NUMBER", str(k)).replace("NAMED", name) for k, name in enumerate(named)]
    steps = steps or [STEP.replace("NUMBER", "0").replace('#line 1 "NAMED"\n', "")]
    calls = "".join(f"step{k}(a, from);" for k in range(len(steps)))
    return HEAD + "".join(steps) + KERNEL.replace("STEPS", calls)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and a secret outside of it."""
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (tmp_path / "secret").write_text(f"{SECRET}\n" * 9)
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    (root / "codec.cpp").write_text("#define coding: punycode\n" * 9)
    monkeypatch.chdir(root)
    return root


def others(root: Path) -> list[str]:
    """Names of files that no text is shown of."""
    return [
        f"{root}/../secret", "../secret", f"{root}/link", "link", f"{root}/folder/secret", f"{root}/pipe", "/dev/zero",
        "/proc/self/environ", f"{root}/.git", "no such file", "stdin", "<string>",
    ]  # fmt: skip


@needs_compiler
def test_no_text_of_another_file_is_shown(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_SECRET", SECRET)
    names = others(repository)
    (repository / "k.cpp").write_text(kernel(*names))
    for words in (["report", "-o", "page.html"], ["check"]):
        done = CliRunner().invoke(app, [*words, "k.cpp", "--target", "a2a3"])
        assert done.exit_code == 1, done.output
        assert SECRET not in done.output and "internal" not in done.output
        assert len(done.output) < 20_000
    assert [name for name in names if f"<{os.path.abspath(name)}>:1" not in done.output] == []
    page = (repository / "page.html").read_text()
    assert "TLOAD(a, from);" in page and SECRET not in page


@needs_compiler
def test_no_text_of_another_file_is_shown_with_errors(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler does not read them either: it would wait for the pipe, and take all memory for zeros."""
    monkeypatch.setenv("OWN_SECRET", SECRET)
    names = others(repository)
    for some in (names[k : k + 3] for k in range(0, len(names), 3)):
        (repository / "k.cpp").write_text("".join(f'#line 1 "{name}"\n#error wrong\n' for name in some))
        done = CliRunner().invoke(app, ["check", "k.cpp", "--target", "a2a3"])
        assert done.exit_code == 1 and done.output.count("refuses the source") == 3, done.output
        assert SECRET not in done.output and "// shown" not in done.output


@needs_compiler
def test_warnings_show_no_text_of_another_file(repository: Path) -> None:
    (repository / "k.cpp").write_text(kernel(f"{repository}/../secret"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        x, out = np.ones(64, "float32"), np.zeros(64, "float32")
        pto.load("k.cpp", target="a2a3")[1](x, out, target="a2a3", engine="machine")
    assert found
    assert all(SECRET not in warnings.formatwarning(w.message, w.category, w.filename, w.lineno) for w in found)


@needs_compiler
def test_texts_of_own_files_are_shown(repository: Path, tmp_path: Path) -> None:
    """The source, a header beside it, one of -I elsewhere, and what a source was made of."""
    (tmp_path / "other").mkdir()
    (repository / "own.hpp").write_text(kernel())
    (tmp_path / "other" / "other.hpp").write_text(kernel())
    (repository / "kernel.in").write_text("made of this\n")
    shown = "TMULS(a, a, 2.0f); // shown"
    cases = {
        "k.cpp": (kernel(), "7", shown),
        "own.hpp": ('#include "own.hpp"\n', "7", shown),
        "other.hpp": ("#include <other.hpp>\n", "7", shown),
        "kernel.in": (kernel("kernel.in"), "1", "made of this"),
    }
    for name, (text, line, expected) in cases.items():
        (repository / "k.cpp").write_text(text)
        done = CliRunner().invoke(app, ["check", "k.cpp", "--target", "a2a3", "-I", "../other"])
        assert done.exit_code == 1 and f"{name}:{line}:" in done.output, done.output
        assert expected in done.output
    report = CliRunner().invoke(app, ["report", "k.cpp", "--target", "a2a3", "-o", "page.html"])
    assert report.exit_code == 1 and "made of this" in (repository / "page.html").read_text()


@needs_compiler
def test_an_error_in_a_header_of_the_user_is_shown(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "h.hpp").write_text("int wrong = nothing; // here\n")
    (repository / "k.cpp").write_text("#include <h.hpp>\n")
    done = CliRunner().invoke(app, ["check", "k.cpp", "--target", "a2a3", "-I", "../other"])
    assert "h.hpp:1:" in done.output and "// here" in done.output


def test_a_text_is_decoded_as_utf8_only(repository: Path) -> None:
    """A codec that a file names is none of ours."""
    file = str(repository / "codec.cpp")
    assert SourceTexts([repository]).name(file) == file
    assert lines_of(file)[:2] == ["#define coding: punycode\n"] * 2


def test_large_files_and_many_are_not_read(tmp_path: Path) -> None:
    texts = SourceTexts([tmp_path])
    (tmp_path / "large").write_bytes(bytes(LONGEST + 1))
    assert texts.name(str(tmp_path / "large")) == f"<{tmp_path / 'large'}>"
    shown = 0
    for number in range(MOST_BYTES // LONGEST + 2):
        (tmp_path / "file").write_bytes(b"x" * LONGEST)
        os.link(tmp_path / "file", tmp_path / f"{number}")
        shown += len(texts.text(str(tmp_path / f"{number}")))
    assert shown == MOST_BYTES
