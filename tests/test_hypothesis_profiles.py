"""The examples of fast tests."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.constants_ast import is_local_module_file

from tests import hypothesis_profiles


def examples() -> list[str]:
    """Return the examples of one test, whose text is always the same."""
    found: list[str] = []

    @settings(settings.get_profile(hypothesis_profiles.FAST), max_examples=200)
    @given(st.text())
    def run(text: str) -> None:
        found.append(text)

    run()
    return found


def test_fast_tests_try_the_same_whichever_modules_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = examples()
    outside = tmp_path  # Hypothesis takes no constants of what is below a folder of tests
    while "tests" in outside.parts:
        outside = outside.parent
    module = outside / f"constants_of_{os.getpid()}.py"
    module.write_text(f"FOUND = {[f'constant {n}' for n in range(100)]}\n")
    spec = importlib.util.spec_from_file_location(module.stem, module)
    assert spec is not None
    monkeypatch.setitem(sys.modules, module.stem, importlib.util.module_from_spec(spec))
    assert examples() == before
    assert is_local_module_file(str(module))
