"""The code of the page on PyTorch does what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_docs import BLOCK, outcome, text_of


def test_the_code_of_the_page_does_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = [*BLOCK.finditer(text_of("docs/torch.md"))]
    assert blocks
    for block in blocks:
        assert outcome(block["code"], names) == (block["shown"] or "").rstrip()
