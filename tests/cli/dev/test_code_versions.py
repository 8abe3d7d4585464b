"""Copies of a program."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from pystate.common.errors import UsageError
from pystate_cli.dev.code_versions import CodeVersions


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "project"
    (folder / "package" / "deep").mkdir(parents=True)
    for name in ("job.py", "rules.py", "package/__init__.py", "package/deep/more.py", "data.csv"):
        (folder / name).write_text(f"# {name}")
    return folder / "job.py"


@pytest.fixture
def versions(program, tmp_path):
    return CodeVersions(program, tmp_path / "code")


def test_a_copy_stays_as_it_is_and_what_is_no_code_is_what_the_author_has(versions, program):
    version = versions.take([program, program.with_name("rules.py")])
    program.write_text("changed")
    program.with_name("rules.py").write_text("changed")
    program.with_name("data.csv").write_text("changed")
    assert version.job_file.read_text() == "# job.py"
    assert (version.folder / "rules.py").read_text() == "# rules.py"
    assert (version.folder / "data.csv").read_text() == "changed"
    assert (version.folder / "package" / "deep" / "more.py").read_text() == "# package/deep/more.py"


def test_modules_of_packages_are_copied_when_they_turn_out_to_be_used(versions, program):
    version = versions.take([])
    used = versions.include(version, [version.folder / "package" / "deep" / "more.py"])
    assert sorted(used) == [program, program.parent / "package" / "deep" / "more.py"]
    (program.parent / "package" / "deep" / "more.py").write_text("changed")
    (program.parent / "package" / "__init__.py").write_text("changed")
    assert (version.folder / "package" / "deep" / "more.py").read_text() == "# package/deep/more.py"
    assert (version.folder / "package" / "__init__.py").read_text() == "changed", "nobody has used it"


def test_only_what_is_used_tells_versions_apart(versions, program):
    first = versions.take([program.with_name("rules.py")])
    versions.include(first, [])
    program.with_name("rules.py").write_text("changed")
    second = versions.take([program.with_name("rules.py")])
    versions.include(second, [])
    assert first.digest == second.digest
    versions.include(first, [first.folder / "rules.py"])
    versions.include(second, [second.folder / "rules.py"])
    assert first.digest != second.digest


def test_what_is_named_besides_is_copied_whole(program, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    (library / "helper.py").write_text("1")
    lone = tmp_path / "lone.py"
    lone.write_text("1")
    versions = CodeVersions(program, tmp_path / "code", [library, lone])
    first = versions.take([])
    (library / "helper.py").write_text("2")
    second = versions.take([])
    assert [path.name for path in first.extra] == ["library", "lone.py"]
    assert [(path / "helper.py").read_text() for path in (first.extra[0], second.extra[0])] == ["1", "2"]
    assert first.digest != second.digest
    assert versions.as_written(f'File "{first.extra[0]}/helper.py", line 1') == f'File "{library}/helper.py", line 1'
    assert versions.as_written(f"{second.extra[1]}, line 1") == f"{lone}, line 1"


def test_paths_are_told_as_the_author_knows_them(versions, program):
    version = versions.take([])
    told = f'File "{version.job_file}", line 3, in f; {version.folder}/package/deep/more.py:1; {version.folder}'
    expected = f'File "{program}", line 3, in f; {program.parent}/package/deep/more.py:1; {program.parent}'
    assert versions.as_written(told) == expected


def test_other_copies_are_deleted(versions):
    first, second, third = (versions.take([]) for _ in range(3))
    versions.keep([second, None])
    assert [one.job_file.exists() for one in (first, second, third)] == [False, True, False]


def test_a_program_that_is_gone_is_told(versions, program):
    program.unlink()
    with pytest.raises(UsageError) as raised:
        versions.take([])
    assert raised.value.where == str(program)


@pytest.mark.parametrize(("module", "call"), [(os, "symlink"), (os, "mkdir"), (shutil, "copy2")])
def test_a_disk_without_room_for_the_copy_is_told(versions, monkeypatch, module, call):
    def refused(*_args, **_more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, call, refused)
    with pytest.raises(UsageError, match="There is no room for a copy of the program: No space left on device"):
        versions.take([])


def test_a_folder_that_is_gone_is_told(versions, program):
    shutil.rmtree(program.parent)
    with pytest.raises(UsageError, match="can't be read: No such file or directory"):
        versions.take([])


def test_a_module_that_is_gone_is_left_to_whoever_imports_it(versions, program):
    assert versions.take([program.with_name("gone.py")]).files == {program.relative_to(program.parent)}
