"""Which text is which place."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import (
    SETTINGS_VARIABLE,
    current_settings,
    initialize,
    put_in_force,
    settings_environment,
)
from pystate.common.errors import PystateError, SnapshotError
from pystate.common.text.place_text import fault_of_place
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, parse_location
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings

JOB_ID = "83f146a87b5572d7c71730b6a8b1dbae"


@pytest.mark.parametrize(
    ("default", "text", "uri"),
    [
        ("s3://bucket", "/a/b", "s3://bucket/a/b"),
        ("hdfs://nn:8020", "/a/b/", "hdfs://nn:8020/a/b"),
        ("hdfs://nn:8020/", "/a", "hdfs://nn:8020/a"),
        ("file:///", "/a/b", "file:/a/b"),
        ("file", "/a/b", "file:/a/b"),
        ("s3://bucket", "file:/a/b", "file:/a/b"),
        ("s3://bucket", "hdfs://nn/x", "hdfs://nn/x"),
    ],
)
def test_the_default_scheme_is_that_of_absolute_paths(default: str, text: str, uri: str) -> None:
    initialize(Configuration({"fs.default-scheme": default}))
    assert parse_location(text)[2] == uri


def test_relative_paths_are_of_this_machine_whatever_the_default_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    initialize(Configuration({"fs.default-scheme": "s3://bucket"}))
    monkeypatch.chdir(tmp_path)
    assert parse_location("sp")[2] == f"file:{tmp_path}/sp"


def test_a_default_that_is_no_scheme_is_refused() -> None:
    initialize(Configuration({"fs.default-scheme": "no scheme"}))
    with pytest.raises(SnapshotError, match="fs.default-scheme"):
        parse_location("/a")


@pytest.mark.parametrize("text", ["s3://key:secret@bucket/x", "ftp://me:pass@host/x", "hdfs://u:p@nn/x"])
def test_a_password_in_a_place_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SnapshotError) as raised:
        parse_location(text)
    assert "******" in raised.value.message
    assert "secret" not in str(raised.value) and ":p@" not in str(raised.value) and "me:pass" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("simplecache::file:///tmp/x", "chains URLs"),
        ("simplecache://::file:///tmp/x", "chains URLs"),
        ("zip://a::file:///tmp/x.zip", "chains URLs"),
        ("s3://bucket/a::http://192.0.2.1/x", "chains URLs"),
        ("http://192.0.2.1/x", "There is no filesystem for"),
        ("HTTPS://192.0.2.1/x", "There is no filesystem for"),
        ("ftp://192.0.2.1/x", "There is no filesystem for"),
        ("zip://a/x", "There is no filesystem for"),
        ("reference://x", "There is no filesystem for"),
        ("/tmp/a\nb", "control character"),
        ("file:/tmp/\x1b[2J", "control character"),
        ("s3://bucket/a\x7fb", "control character"),
    ],
)
def test_what_is_no_place_of_snapshots_is_refused_before_anything_is_asked(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda *_, **__: pytest.fail("a filesystem was made"))
    with pytest.raises(SnapshotError, match=message) as raised:
        parse_location(text)
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("text", ["/data/a::b", "file:/data/a::b", "/data/ä ö", "memory://x/y"])
def test_odd_names_of_places_are_still_places(text: str) -> None:
    parse_location(text)


def test_an_address_in_brackets_is_no_chain() -> None:
    assert fault_of_place("hdfs://[::1]:8020/x") is None


@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.dir",
        "execution.checkpointing.savepoint-dir",
        "execution.checkpointing.local-backup.dirs",
        "execution.state-recovery.path",
        "high-availability.storageDir",
    ],
)
@pytest.mark.parametrize("value", ["simplecache::file:///tmp/x", "/tmp/a\nb"])
def test_options_that_name_places_refuse_it_too(key: str, value: str) -> None:
    with pytest.raises(PystateError, match=re.escape(key)):
        Configuration({key: value})


@pytest.mark.parametrize(
    ("text", "package", "command"),
    [
        ("s3://bucket/x", "s3fs", "pip install 'pystate-spark[s3]'"),
        ("hdfs://without-a-package:8020/x", "requests", "pip install 'pystate-spark[hdfs]'"),
    ],
)
def test_a_missing_package_is_one_sentence_with_the_command(text: str, package: str, command: str, monkeypatch: Any) -> None:
    for name in ("pystate.core.file_systems.s3", "pystate.core.file_systems.webhdfs"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SnapshotError) as raised:
        parse_location(text)
    assert raised.value.hint == command
    assert "isn't installed" in raised.value.message
    if text.startswith("hdfs"):
        assert "libhdfs" in raised.value.message and "WebHDFS" in raised.value.message


@pytest.mark.parametrize("key", ["execution.checkpointing.dir", "execution.checkpointing.savepoint-dir"])
def test_a_job_cannot_have_its_snapshots_in_the_memory_of_one_process(key: str) -> None:
    with pytest.raises(SnapshotError, match="the job's slots are other processes"):
        CheckpointSettings.of(Configuration({key: "memory://checkpoints"}), JOB_ID)


def test_a_job_cannot_take_a_savepoint_there_either(tmp_path: Path) -> None:
    storage = CheckpointSettings.of(Configuration({"execution.checkpointing.dir": str(tmp_path)}), JOB_ID).storage
    with pytest.raises(SnapshotError, match="the job's slots are other processes"):
        storage.savepoint_location("memory://savepoints")


def test_within_one_process_memory_is_as_good_as_any_place() -> None:
    storage = CheckpointStorageAccess("memory://test-of-places", None, JOB_ID)
    storage.initialize()
    location = storage.checkpoint_location(1)
    location.create()
    location.write_metadata(b"m")
    assert SnapshotLocation(location.uri).read_metadata() == b"m"


def test_keys_of_flinks_without_effect_have_a_reason() -> None:
    from pystate.common.configuration.keys_without_effect import why_without_effect

    for key in ("s3.entropy.key", "fs.overwrite-files", "env.java.opts.all", "fs.allowed-fallback-filesystems"):
        assert why_without_effect(key)


def test_an_unknown_key_of_s3_is_an_error() -> None:
    with pytest.raises(PystateError, match="s3.endpint"):
        Configuration({"s3.endpint": "http://127.0.0.1:9000"})


def test_a_process_that_is_started_gets_the_settings_and_shows_them_nowhere(monkeypatch: Any) -> None:
    values = {"s3.secret-key": "hidden", "s3.endpoint": "http://127.0.0.1:1", "pystate.hdfs.webhdfs-address": "a:1,b:2"}
    initialize(Configuration({**values, "pystate.hdfs.client": "webhdfs"}))
    given, environment = current_settings(), settings_environment()
    put_in_force(None)
    assert current_settings() != given
    monkeypatch.setenv(*next(iter(environment.items())))
    assert current_settings() == given
    assert "hidden" not in repr(current_settings())
    monkeypatch.setenv(SETTINGS_VARIABLE, "{}")
    with pytest.raises(PystateError, match=SETTINGS_VARIABLE):
        current_settings()


def test_defaults_need_no_variable() -> None:
    assert settings_environment() == {}
