from __future__ import annotations

import sys

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError
from pystate.runtime.spark.workers.python_files import add_python_files, python_files


def configured(*words):
    return Configuration({"python.files": ",".join(map(str, words))})


def test_files_and_folders_are_named_with_commas_between_them_or_as_urls(tmp_path):
    (tmp_path / "a module.py").touch()
    (tmp_path / "lib").mkdir()
    url = (tmp_path / "a module.py").as_uri()
    assert python_files(configured(url, f" {tmp_path / 'lib'}", "")) == [tmp_path / "a module.py", tmp_path / "lib"]
    assert python_files(Configuration({})) == []


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nowhere.py", "There is no {folder}/nowhere.py."),
        ("hdfs://host/lib.zip", "hdfs://host/lib.zip is not on this machine."),
        (
            "data.csv",
            "Python can't import from {folder}/data.csv: it is neither a folder nor a .py, .zip, .egg or .whl file.",
        ),
    ],
)
def test_what_can_not_be_imported_from_is_refused(tmp_path, monkeypatch, word, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").touch()
    with pytest.raises(ConfigurationError) as caught:
        python_files(configured(word))
    assert caught.value.message == message.format(folder=tmp_path)
    assert caught.value.where == "python.files"


def test_the_driver_imports_from_them_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", ["before"])
    (tmp_path / "lib").mkdir()
    (tmp_path / "one.py").touch()
    (tmp_path / "two.zip").touch()
    add_python_files(configured(tmp_path / "lib", tmp_path / "one.py", tmp_path / "two.zip"))
    assert sys.path == [str(tmp_path / "lib"), str(tmp_path), str(tmp_path / "two.zip"), "before"]
