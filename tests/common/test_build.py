"""Of which commit a pystate is."""

from __future__ import annotations

import subprocess

import pytest

from pystate.common import build
from tests.ops.jobmanager.harness import REPOSITORY


def test_a_tree_with_history_says_its_own():
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert build.commit() == head[:12]


@pytest.mark.parametrize(("written", "said"), [("ab" * 20, "ab" * 6), ("cd" * 20 + "-modified", "cd" * 6 + "-modified")])
def test_a_wheel_says_what_it_was_built_of(tmp_path, monkeypatch, written, said):
    (tmp_path / "commit.txt").write_text(f"{written}\n")
    monkeypatch.setattr(build, "_PACKAGE", tmp_path)
    assert build.commit() == said


def test_without_history_it_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_PACKAGE", tmp_path / "runtime" / "pystate")
    assert build.commit() is None
