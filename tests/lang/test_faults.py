"""Errors in user code: reported at the line, with their own type, without ptokit's frames."""

from __future__ import annotations

import linecache
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.finding import near
from ptokit.lang import dispatch, faults
from tests import snippet

PACKAGE = str(Path(pto.__file__).parent)
HERE = "# <- here"

RAISING = {
    "a misspelt call": (AttributeError, "did you mean tadd?", "pto.taad(t, t, t)"),
    "a misspelt type": (AttributeError, "did you mean Tile?", "pto.tile('vec', 'float32', 8, 8)"),
    "a name that there is not": (NameError, "nothing_such", "nothing_such(t)"),
    "a misspelt attribute": (AttributeError, "did you mean valid?", "t.vaild"),
    "a misspelt keyword": (TypeError, "Did you mean 'oob'?", "pto.mgather(t, x, t, obb='clamp')"),
    "a misspelt keyword of a tile": (TypeError, "Did you mean 'valid'?", "pto.Tile('vec', 'int8', 8, 32, vlid=(1, 1))"),
    "too few operands": (TypeError, "missing 2 required positional arguments", "pto.tadd(t)"),
    "too many operands": (TypeError, "takes 2 positional arguments", "pto.tload(t, x, t)"),
    "an operand of no use": (TypeError, "src0 must be a pto.Tile", "pto.tadd(t, None, t)"),
    "an element type that there is not": (TypeError, "int33", "pto.Tile('vec', 'int33', 8, 8)"),
    "a division": (ZeroDivisionError, "division by zero", "1 / 0"),
    "a key": (KeyError, "'missing'", "{}['missing']"),
    "a position": (IndexError, "list index out of range", "[][1]"),
    "an assertion": (AssertionError, "not today", "assert False, 'not today'"),
    "an exception of the user's": (RuntimeError, "mine", "raise RuntimeError('mine')"),
    "a number too large": (OverflowError, "", "float(10 ** 400)"),
    "an import": (ModuleNotFoundError, "not_there_at_all", "import not_there_at_all"),
    "NumPy": (ValueError, "broadcast", "np.broadcast_to(np.ones(3), (2,))"),
    "no end of calls": (RecursionError, "recursion", "forever(t)"),
}  # fmt: skip
"""What a kernel's line raises: the type, words of it, and the line."""


def kernel_of(line: str, title: str) -> tuple[Any, int]:
    """A kernel with one bad line, and the line's number."""
    body = f"""\
        @pto.kernel
        def k(x, out):
            t = pto.Tile("vec", "float32", 8, 8)
            pto.tload(t, x)
            {line}  {HERE}
            pto.tstore(out, t)
    """
    code = dedent(body)
    names = {"pto": pto, "np": np, "sys": sys, "forever": forever}
    exec(snippet.compiled(code, title), names)
    (number,) = [n for n, text in enumerate(code.split("\n"), 1) if HERE in text]
    return names["k"], number


def forever(tile: object) -> object:
    return forever(tile)


def arrays() -> tuple[Any, Any]:
    return np.ones((8, 8), "float32"), np.zeros((8, 8), "float32")


def files_of(problem: BaseException) -> list[str]:
    return [entry.filename for entry in traceback.extract_tb(problem.__traceback__)]


def own_frames(problem: BaseException) -> list[str]:
    return [file for file in files_of(problem) if file.startswith(PACKAGE)]


@pytest.mark.parametrize("title", RAISING)
def test_a_check_reports_what_a_kernel_raises_at_its_line(title: str) -> None:
    kind, words, line = RAISING[title]
    kernel, number = kernel_of(line, title)
    report = pto.check(kernel, *arrays())
    assert [*report.targets] == ["cpu", "a2a3", "a5"] and not report.accepted
    for target in report.targets.values():
        (finding,) = target.findings
        assert (finding.level, finding.rule) == ("error", "KN-20")
        assert finding.message.startswith(kind.__name__) and words in finding.message
        assert finding.fix
        assert finding.where is not None
        if kind is not RecursionError:
            assert finding.where == pto.Where(f"<{title}>", number)
        else:
            assert finding.where.file == __file__


@pytest.mark.parametrize("options", [{}, {"engine": "machine", "target": "a5"}, {"debug": True}], ids=str)
@pytest.mark.parametrize("title", RAISING)
def test_a_launch_raises_it_with_the_user_s_frames_alone(title: str, options: dict[str, Any]) -> None:
    kind, words, line = RAISING[title]
    if options.get("debug") and "misspelt attribute" in title:
        words = "vaild"  # a tile with content is a plain object
    kernel, number = kernel_of(line, title)
    with pytest.raises(kind) as stopped:
        kernel[1](*arrays(), **options)
    problem = stopped.value
    assert type(problem) is kind and words in str(problem)
    entries = traceback.extract_tb(problem.__traceback__)
    assert entries[0].filename == __file__ and entries[1].filename == f"<{title}>"
    assert entries[1].lineno == number
    assert own_frames(problem) == []
    assert problem.__context__ is None or problem.__suppress_context__


def test_the_fix_of_a_misspelt_keyword_names_the_call_and_the_keyword() -> None:
    kernel, _ = kernel_of("pto.mgather(t, x, t, obb='clamp')", "fix of a keyword")
    (finding,) = pto.check(kernel, *arrays(), target="a5").findings
    assert finding.fix.startswith("write oob; pto.mgather takes dst, table, idx, coalesce, oob")
    kernel, _ = kernel_of("pto.tmuls(t, t, 'a')", "fix of a number")
    (finding,) = pto.check(kernel, *arrays(), target="a5").findings
    assert finding.fix == "see help(pto.tmuls)"


def test_a_helper_of_another_file_is_named_with_its_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def half(tile):\n\n    return tile.nothing_like_that / 2\n"
    (tmp_path / "helper_of_a_kernel.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    kernel, _ = kernel_of("__import__('helper_of_a_kernel').half(t)", "calls a helper")
    (finding,) = pto.check(kernel, *arrays(), target="cpu").findings
    assert finding.where == pto.Where(str(tmp_path / "helper_of_a_kernel.py"), 3)
    assert "nothing_like_that" in finding.message


def test_an_installed_helper_is_named_by_its_caller_s_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_helper.py").write_text("def half(tile):\n    return 1 / 0\n", "utf-8")
    monkeypatch.syspath_prepend(folder)
    kernel, number = kernel_of("__import__('installed_helper').half(t)", "calls a library")
    (finding,) = pto.check(kernel, *arrays(), target="cpu").findings
    assert finding.where == pto.Where("<calls a library>", number)


def test_a_kernel_that_leaves_python_is_reported_and_a_launch_leaves() -> None:
    kernel, number = kernel_of("sys.exit(3)", "leaves")
    (finding,) = pto.check(kernel, *arrays(), target="cpu").findings
    assert finding.message == "SystemExit: 3" and finding.where == pto.Where("<leaves>", number)
    with pytest.raises(SystemExit):
        kernel[1](*arrays())


def test_an_interruption_is_none_of_the_kernel_s() -> None:
    kernel, _ = kernel_of("raise KeyboardInterrupt", "interrupted")
    for call in (lambda: pto.check(kernel, *arrays()), lambda: kernel[1](*arrays())):
        with pytest.raises(KeyboardInterrupt):
            call()


def test_after_an_exception_nothing_is_being_traced() -> None:
    kernel, _ = kernel_of("1 / 0", "ends")
    with pytest.raises(ZeroDivisionError):
        kernel[1](*arrays())
    assert pto.Tile("vec", "float32", 1, 8).write(1).read().sum() == 8


def test_the_caret_stands_under_the_expression_whatever_stands_before_it() -> None:
    kernel, _ = kernel_of('"ä€𝄞", pto.taad(t)', "letters")
    (finding,) = pto.check(kernel, *arrays(), target="cpu").findings
    assert finding.where is not None and finding.where.caret is not None
    line = linecache.getline("<letters>", finding.where.line)
    assert line[finding.where.caret - 1 :].startswith("pto.taad")


# --- defects of ptokit -------------------------------------------------------------------------------------------


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Replaces a part of the tracer, as if it stood in ptokit's own file."""

    def plant(broken: Callable[..., Any]) -> None:
        monkeypatch.setattr(dispatch, "parse_modifiers", broken)

    return plant


def planted(source: str) -> Callable[..., Any]:
    """A function whose code lies in ptokit."""
    names: dict[str, Any] = {}
    exec(compile(f"def broken(*_):\n{indent(source, '    ')}", f"{PACKAGE}/lang/dispatch.py", "exec"), names)
    return names["broken"]


@pytest.mark.parametrize(
    ("source", "kind"),
    [("{}['x']", KeyError), ("None.x", AttributeError), ("assert False", AssertionError), ("[][1]", IndexError)],
)
def test_a_defect_of_ptokit_keeps_its_frames_and_is_no_finding(
    defect: Callable[..., None], source: str, kind: type[Exception]
) -> None:
    defect(planted(source))
    kernel, _ = kernel_of("pass", "right")
    for call in (lambda: pto.check(kernel, *arrays()), lambda: kernel[1](*arrays())):
        with pytest.raises(kind) as stopped:
            call()
        assert own_frames(stopped.value)[-1] == f"{PACKAGE}/lang/dispatch.py"


def test_an_accidental_type_error_keeps_its_frames_in_a_launch(defect: Callable[..., None]) -> None:
    defect(planted("None + 1"))
    kernel, _ = kernel_of("pass", "right again")
    with pytest.raises(TypeError) as stopped:
        kernel[1](*arrays())
    assert own_frames(stopped.value)
    defect(planted("raise TypeError('told')"))
    with pytest.raises(TypeError, match="told") as stopped:
        kernel[1](*arrays())
    assert not own_frames(stopped.value)


# --- tracebacks of calls -----------------------------------------------------------------------------------------


def tile(cols: int = 8) -> pto.Tile:
    return pto.Tile("vec", "float32", 8, cols).write(1)


@pto.kernel
def copy(x: Any, out: Any) -> None:
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tstore(out, t)


@pto.kernel
def gathered(x: Any, ids: Any, out: Any) -> None:
    t, index = pto.Tile("vec", "float32", 8, 8), pto.Tile("vec", "int32", 1, 8)
    pto.tload(index, ids)
    pto.mgather(t, x, index)
    pto.tstore(out, t)


def indices(value: int) -> Any:
    return np.full((1, 8), value, "int32")


CALLS: dict[str, tuple[type[Exception], Callable[[], object]]] = {
    "tadd": (pto.VerifyError, lambda: pto.tadd(tile(), tile(16), tile())),
    "mgather": (pto.OutOfBoundsError, lambda: pto.mgather(
        tile(), pto.GlobalTensor(arrays()[0]), pto.Tile("vec", "int32", 1, 8).write(indices(9)))),
    "mgather by keyword": (TypeError, lambda: getattr(pto, "mgather")(tile(), tile(), tile(), obb="clamp")),  # noqa: B009
    "Tile": (pto.VerifyError, lambda: pto.Tile("vec", "float32", 0, 8)),
    "Tile by keyword": (TypeError, lambda: pto.Tile(*[], **{"vlid": 1})),  # noqa: PIE804 # pyright: ignore[reportCallIssue]
    "write": (ValueError, lambda: tile().write(np.ones((3, 3), "float32"))),
    "valid": (pto.VerifyError, lambda: setattr(tile(), "valid", (1, 1))),
    "GlobalTensor": (ValueError, lambda: pto.GlobalTensor(np.ones(()))),
    "a slice": (pto.OutOfBoundsError, lambda: pto.GlobalTensor(arrays()[0])[0:9]),
    "gather": (pto.OutOfBoundsError, lambda: pto.gather(arrays()[0], [9] * np.ones(1, "int64"))),
    "scatter": (pto.VerifyError, lambda: pto.scatter(*arrays(), np.ones(3, "int16"))),
    "target": (ValueError, lambda: pto.target("a9")),
    "block_idx": (pto.VerifyError, lambda: pto.block_idx()),
    "when": (pto.VerifyError, lambda: pto.when(1).__enter__()),
    "a grid": (pto.VerifyError, lambda: copy[-1]),
    "no grid": (pto.VerifyError, lambda: copy(*arrays())),
    "a launch": (pto.VerifyError, lambda: copy[1](arrays()[0][:5], arrays()[1])),
    "arguments": (TypeError, lambda: copy[1](*arrays(), nothing=1)),
    "an index of a launch": (pto.OutOfBoundsError, lambda: gathered[1](arrays()[0], indices(9), arrays()[1])),
    "check": (TypeError, lambda: pto.check(print)),  # type: ignore[arg-type]
    "show": (pto.VerifyError, lambda: pto.show(copy, 0.5, 1)),
    "kernel": (ValueError, lambda: pto.kernel(mode="fast")(lambda: None)),
    "a name": (AttributeError, lambda: getattr(pto, "taad")),  # noqa: B009
}  # fmt: skip


@pytest.mark.parametrize("title", CALLS)
def test_a_traceback_ends_at_the_user_s_line(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, call = CALLS[title]
    with pytest.raises(kind) as stopped:
        call()
    assert {*files_of(stopped.value)} == {__file__}
    monkeypatch.setenv(faults.TRACEBACK, "1")
    with pytest.raises(kind) as stopped:
        call()
    assert own_frames(stopped.value), "on request they are all there"


def test_a_second_launch_raises_as_the_first() -> None:
    x, out = arrays()
    gathered[1](x, indices(1), out)
    for _ in range(3):
        with pytest.raises(pto.OutOfBoundsError) as stopped:
            gathered[1](x, indices(9), out)
        assert {*files_of(stopped.value)} == {__file__}


def test_hazards_warn_at_the_user_s_line() -> None:
    ids, table = pto.Tile("vec", "int32", 1, 8).write(indices(-1)), pto.GlobalTensor(arrays()[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = sys._getframe().f_lineno + 1
        pto.mgather(tile(), table, ids, oob="clamp")
    assert [(warning.category, warning.filename, warning.lineno) for warning in caught] == [
        (pto.HazardWarning, __file__, line)
    ]


# --- near names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "meant"),
    [("taad", "tadd"), ("tlaod", "tload"), ("mgathr", "mgather"), ("tile", "Tile"), ("kernal", "kernel"),
     ("Kernl", "Kernel"), ("globaltensor", "GlobalTensor"), ("xyzzy", ""), ("", ""), ("t" * 5000, "")],
)  # fmt: skip
def test_a_misspelt_word_is_near_one_name(word: str, meant: str) -> None:
    assert near(word, pto.__all__) == meant


def test_a_misspelt_name_of_ptokit_is_an_attribute_error_with_the_near_one() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'mscater'; did you mean mscatter\?") as stopped:
        getattr(pto, "mscater")  # noqa: B009
    shown = "".join(traceback.format_exception(stopped.value))
    assert shown.lower().count("did you mean") == 1, "Python adds no guess of its own"
    assert not hasattr(pto, "mscater") and not hasattr(pto, "__path_of_nothing__")
    assert getattr(pto, "mscater", None) is None


@pytest.mark.parametrize(
    ("keywords", "printed"),
    [
        ({}, "copy: missing required arguments: 'x' and 'out'"),
        ({"x": 1}, "copy: missing a required argument: 'out'"),
        ({"x": 1, "out": 2, "taget": "a5"}, "copy: got an unexpected keyword argument 'taget'. Did you mean 'target'?"),
        ({"x": 1, "ouut": 2}, "copy: got an unexpected keyword argument 'ouut'. Did you mean 'out'?"),
    ],
)
def test_arguments_of_a_launch_are_named_all_at_once(keywords: dict[str, Any], printed: str) -> None:
    with pytest.raises(TypeError) as stopped:
        copy[1](**keywords)
    assert str(stopped.value) == printed
