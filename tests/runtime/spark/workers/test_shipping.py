"""What goes to executors: tried by a Python that has nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import pystate
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError
from pystate.runtime.spark.workers import shipping
from pystate.runtime.spark.workers.shipping import files_to_ship, make_archive, program_folder


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "shipped"
    made.mkdir()
    return made


def write(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"NAME = {name!r}\n")


def shipped(folder, program=None, **options):
    configuration = Configuration({key.replace("_", "."): str(value) for key, value in options.items()})
    return list(files_to_ship(configuration, program, folder))


def names_in(path):
    with zipfile.ZipFile(path) as archive:
        return sorted(name for name in archive.namelist() if not name.endswith("/"))


def test_pystate_is_shipped_whole_and_its_archive_is_named_after_its_content(folder, tmp_path):
    (archive,) = shipped(folder)
    own = Path(pystate.__file__).parent
    assert names_in(archive) == sorted(
        f"pystate/{path.relative_to(own).as_posix()}"
        for path in own.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    again = tmp_path / "again"
    again.mkdir()
    (same,) = shipped(again)
    assert same.name == archive.name
    assert same.read_bytes() == archive.read_bytes()


def test_a_python_with_the_dependencies_alone_can_be_a_slot_with_the_archive(folder, tmp_path):
    write(tmp_path / "lib", "one/two/inner.py")
    archive, lib = shipped(folder)[0], make_archive(folder, "lib", shipping._tree(tmp_path / "lib", ""))
    script = (
        "import sys; sys.path[1:1] = sys.argv[1:];"
        "import pystate.runtime.slot.process as process, pystate.runtime.engines.micro_batch.spark.exchange;"
        "from one.two.inner import NAME; print(process.__file__, NAME)"
    )
    command = [sys.executable, "-c", script, archive, lib]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.split() == [f"{archive}/pystate/runtime/slot/process.py", "one/two/inner.py"]


def test_the_programs_neighbours_are_shipped_and_nothing_else(folder, tmp_path, monkeypatch):
    program = tmp_path / "program"
    write(program, "job.py", "beside.py", "package/__init__.py", "package/deep/inner.py", "package/data.txt")
    write(program, "package/__pycache__/inner.pyc", "package/.hidden.py", ".venv/lib.py", "venv/lib.py", "data/rows.csv")
    write(program, "namespace/inner.py")
    loaded = types.ModuleType("namespace")
    loaded.__path__ = [str(program / "namespace")]
    monkeypatch.setitem(sys.modules, "namespace", loaded)
    archive, _ = shipped(folder, program)
    assert names_in(archive) == [
        "beside.py", "job.py", "namespace/inner.py", "package/__init__.py", "package/data.txt", "package/deep/inner.py"
    ]  # fmt: skip
    assert archive.name.startswith("program-")
    write(program, "another.py")
    assert shipped(folder, program)[0] != archive, "another content has another name"


def test_files_of_the_job_use_buffer_the_programs_own_and_pystate_before_all(folder, tmp_path):
    write(tmp_path, "one.py", "lib/two/inner.py")
    program = tmp_path / "program"
    write(program, "job.py")
    one, lib, own, ours = shipped(folder, program, python_files=f"{tmp_path / 'one.py'},{tmp_path / 'lib'}")
    assert one == tmp_path / "one.py"
    assert names_in(lib) == ["two/inner.py"]
    assert names_in(own) == ["job.py"]
    assert ours.name.startswith("pystate-")


def test_a_wheel_is_shipped_under_a_name_that_spark_knows(folder, tmp_path):
    wheel = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing/__init__.py", "")
    shipped_wheel, _ = shipped(folder, python_files=wheel)
    assert shipped_wheel.suffix == ".zip"
    assert names_in(shipped_wheel) == ["thing/__init__.py"]
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("thing/fast.cpython-311-x86_64-linux-gnu.so", "")
    with pytest.raises(ConfigurationError, match="has compiled code"):
        shipped(folder, python_files=wheel)


def test_a_folder_that_is_no_programs_own_is_refused_by_its_size(folder, monkeypatch):
    monkeypatch.setattr(shipping, "_MOST_BYTES", 1 << 20)
    with pytest.raises(ConfigurationError) as caught:
        make_archive(folder, "lib", iter([("a.py", bytes(3 << 20))]))
    assert caught.value.message == "The Python files of 'lib' have 3 MB; at most 1 MB are shipped."
    assert os.listdir(folder) == []


def test_the_programs_folder_is_the_one_its_imports_begin_at(tmp_path, monkeypatch):
    write(tmp_path, "job.py", "package/__init__.py", "package/inner/__init__.py", "package/inner/job.py")
    for argument, expected in [
        (tmp_path / "job.py", tmp_path),
        (tmp_path / "package" / "inner" / "job.py", tmp_path),
        ("", None),
        ("-c", None),
    ]:
        monkeypatch.setattr(sys, "argv", [str(argument)])
        assert program_folder() == expected
    shutil.rmtree(tmp_path / "package")


def test_the_program_of_a_notebook_is_beside_it_and_not_beside_its_kernel(tmp_path, monkeypatch):
    kernel = tmp_path / "site-packages" / "ipykernel_launcher.py"
    kernel.parent.mkdir()
    kernel.touch()
    monkeypatch.setattr(sys, "argv", [str(kernel)])
    monkeypatch.chdir(tmp_path)
    assert program_folder() == kernel.parent
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert program_folder() == tmp_path
