"""`make release`: what each check refuses, and what it says then."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

import pystate
from release.check import (
    Failed,
    check_archives,
    check_licences,
    check_notes,
    check_tag,
    dependencies,
    last_step,
    licence_of,
    vendored,
    write_bill,
    write_sums,
)
from tests.ops.jobmanager.harness import REPOSITORY
from tests.test_project import PROJECT


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    git("init", "--quiet")
    (tmp_path / "a").write_text("a")
    git("add", "a")
    git("commit", "--quiet", "-m", "a")
    git("tag", "v1.2.0")
    return tmp_path


def test_the_tag_is_that_of_the_version_and_the_tree_has_no_changes(tree):
    assert check_tag(tree, "1.2.0").startswith("v1.2.0 is ")
    with pytest.raises(Failed, match=r"the commit has no tag v1.3.0: git tag"):
        check_tag(tree, "1.3.0")
    (tree / "a").write_text("b")
    with pytest.raises(Failed, match="the tree has changes: M a"):
        check_tag(tree, "1.2.0")


def test_the_notes_are_of_the_version_and_have_a_date():
    notes = "# Changelog\n\n## 1.2.0 (2026-02-01)\n\n- one\n- two\n\n## 1.1.0 (2026-01-01)\n\n- three\n"
    assert check_notes(notes, "1.2.0") == "2 entries of 2026-02-01"
    with pytest.raises(Failed, match=r"begins with 1.2.0, and not with 1.3.0"):
        check_notes(notes, "1.3.0")
    with pytest.raises(Failed, match="write the day of the release"):
        check_notes(notes.replace("2026-02-01", "unreleased"), "1.2.0")
    with pytest.raises(Failed, match="begins with nothing"):
        check_notes("", "1.2.0")


def test_the_notes_of_this_tree_can_be_read():
    text = (REPOSITORY / "CHANGELOG.md").read_text("utf-8").replace("(unreleased)", "(2026-02-01)", 1)
    assert "entries of" in check_notes(text, pystate.__version__)


def test_archives_that_are_not_there(tmp_path):
    with pytest.raises(Failed, match="dist/ has nothing: make dist"):
        (tmp_path / "dist").mkdir()
        check_archives(REPOSITORY, tmp_path / "dist", "1.2.0")


def test_all_dependencies_have_licences_that_are_allowed():
    found = dependencies()
    names = {each.metadata["Name"].lower().replace("_", "-") for each in found}
    assert {line.partition(">")[0] for line in PROJECT["project"]["dependencies"]} - names <= {"tomli"}
    assert {"py4j", "click"} <= names, "what they bring along is among them"
    assert check_licences(found) == f"{len(found)} dependencies, 4 vendored libraries"


def test_a_licence_that_is_not_allowed_is_named(monkeypatch):
    (click,) = [each for each in dependencies() if each.metadata["Name"] == "click"]
    assert licence_of(click)
    monkeypatch.setattr("release.check.licence_of", lambda _each: "Proprietary")
    with pytest.raises(Failed, match="^click: Proprietary$"):
        check_licences([click])


def test_the_bill_has_the_libraries_in_the_wheel_too(tmp_path, monkeypatch):
    made = {"components": [], "dependencies": []}
    monkeypatch.setattr("release.check._run", lambda *_: json.dumps(made))
    assert write_bill(tmp_path, []) == "pystate-spark.cdx.json: 4 components"
    bill = json.loads((tmp_path / "pystate-spark.cdx.json").read_text())
    assert [one["purl"] for one in bill["components"]] == [one["purl"] for one in vendored()]
    assert "pkg:npm/%40dagrejs/dagre@3.1.3" in bill["dependencies"][-1]["dependsOn"]


def test_the_hashes_are_those_of_the_files(tmp_path):
    (tmp_path / "b").write_bytes(b"b")
    (tmp_path / "a").write_bytes(b"a")
    for _ in range(2):  # the file of hashes has no line of its own
        assert write_sums(tmp_path) == "SHA256SUMS: 2 files"
    sums = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b")}
    assert (tmp_path / "SHA256SUMS").read_text() == "".join(f"{digest}  {name}\n" for name, digest in sums.items())


def test_the_last_step_is_said(tmp_path):
    said = last_step(tmp_path, "1.2.0")
    assert "git push origin v1.2.0" in said
    assert f"upload {tmp_path}/pystate_spark-1.2.0*" in said
