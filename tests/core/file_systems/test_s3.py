"""S3: its options, its errors, its uploads."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize
from pystate.common.errors import SnapshotError, SnapshotExistsError, StorageError
from pystate.core.file_systems.file_stores import store_of
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, parse_location
from tests.core.file_systems.conftest import Place
from tests.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

JOB_ID = "83f146a87b5572d7c71730b6a8b1dbae"


@pytest.fixture
def location(s3_place: Place) -> SnapshotLocation:
    return SnapshotLocation(f"{s3_place.uri}/chk-1")


@pytest.fixture
def server(s3_place: Place) -> S3Server:
    assert s3_place.s3 is not None
    return s3_place.s3


def uploads(location: SnapshotLocation) -> list[str]:
    return [upload["Key"] for upload in location._fs.list_multipart_uploads(location.uri.split("/")[2])]


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "s3p", "S3A"])
def test_all_of_hadoops_and_flinks_schemes_are_one(scheme: str, location: SnapshotLocation) -> None:
    location.write_metadata(b"m")
    other = SnapshotLocation(location.uri.replace("s3://", f"{scheme}://") + "/")
    assert other == location
    assert other.read_metadata() == b"m"


def test_a_bucket_must_be_named() -> None:
    with pytest.raises(SnapshotError, match="names no bucket"):
        parse_location("s3:///chk-1")


def test_a_bucket_is_not_made_but_missed(s3_place: Place) -> None:
    storage = CheckpointStorageAccess("s3://no-such-bucket-here/checkpoints", None, JOB_ID)
    with pytest.raises(StorageError, match="bucket does not exist"):
        storage.initialize()


@pytest.mark.parametrize("prefix", ["s3.", "s3a.", "fs.s3a."])
def test_keys_as_flink_and_hadoop_write_them_reach_the_server(s3_server: S3Server, s3_place: Place, prefix: str) -> None:
    location = SnapshotLocation(f"{s3_place.uri}/chk-1")
    location.write_metadata(b"m")
    written = {"endpoint": s3_server.url, "access.key": ACCESS_KEY, "secret.key": SECRET_KEY, "path.style.access": "true"}
    initialize(Configuration({f"{prefix}{name}": value for name, value in written.items()}))
    assert SnapshotLocation(location.uri).read_metadata() == b"m"


def test_credentials_come_from_the_environment(s3_server: S3Server, s3_place: Place, monkeypatch: Any) -> None:
    initialize(Configuration({"s3.region": "eu-central-1"}))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    location = SnapshotLocation(f"{s3_place.uri}/chk-1")
    location.write_metadata(b"m")
    assert location.exists


def test_credentials_come_from_the_file_of_the_aws_tools(
    s3_server: S3Server, s3_place: Place, monkeypatch: Any, tmp_path: Any
) -> None:
    file = tmp_path / "credentials"
    file.write_text(f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n")
    initialize(Configuration({"s3.endpoint": s3_server.url, "s3.region": "us-west-2"}))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    location = SnapshotLocation(f"{s3_place.uri}/chk-1")
    location.write_metadata(b"m")
    assert location.exists


def test_without_credentials_the_error_says_so(s3_server: S3Server, s3_place: Place) -> None:
    initialize(Configuration({"s3.endpoint": s3_server.url, "s3.region": "ap-south-1"}))
    with pytest.raises(SnapshotError, match="(?i)credentials"):
        _ = SnapshotLocation(f"{s3_place.uri}/chk-1").exists


def test_no_error_shows_a_secret(s3_place: Place, monkeypatch: Any) -> None:
    location = SnapshotLocation(f"{s3_place.uri}/chk-1")

    def leak(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"signed {ACCESS_KEY}/2026 with {SECRET_KEY}")

    monkeypatch.setattr(location._fs, "pipe_file", leak)
    with pytest.raises(SnapshotError) as raised:
        location.write_metadata(b"m")
    assert "signed ******/2026 with ******" in str(raised.value)
    assert SECRET_KEY not in repr(location) + str(raised.value.to_dict())


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_what_passes_is_tried_again(location: SnapshotLocation, server: S3Server, status: int) -> None:
    server.failures[:] = [status]
    location.write_metadata(b"m")
    server.failures[:] = [status]
    assert location.read_metadata() == b"m"
    assert server.failures == []


def test_repetitions_are_bounded_and_can_be_set(s3_place: Place, server: S3Server) -> None:
    initialize(Configuration({**server.options, "s3.retry.max-num-retries": "1"}))
    location = SnapshotLocation(f"{s3_place.uri}/chk-1")
    server.asked.clear()
    server.failures[:] = [503] * 100
    with pytest.raises(SnapshotError, match="Service Unavailable"):
        _ = location.exists
    assert 2 <= len(server.asked) <= 4


def test_a_refusal_is_not_tried_again(location: SnapshotLocation, server: S3Server) -> None:
    server.asked.clear()
    server.failures[:] = [403]
    with pytest.raises(SnapshotError, match="Cannot look at"):
        _ = location.exists
    assert len(server.asked) == 1


def test_an_answer_that_was_lost_is_not_taken_for_another_driver(location: SnapshotLocation, server: S3Server) -> None:
    location.write_metadata(b"ours")  # the first request, of which we never heard
    location.write_metadata(b"ours")
    with pytest.raises(SnapshotExistsError):
        location.write_metadata(b"theirs")


def test_a_service_without_conditional_writes_is_looked_at_first(location: SnapshotLocation, server: S3Server) -> None:
    server.fails = lambda asked: asked.startswith("PUT")
    server.failures[:] = [501]
    location.write_metadata(b"m")
    assert (server.failures, location.read_metadata()) == ([], b"m")
    with pytest.raises(SnapshotExistsError):
        location.write_metadata(b"other")


def test_an_upload_that_fails_leaves_no_parts(location: SnapshotLocation, server: S3Server) -> None:
    def write(file: Any) -> None:
        for number in range(16):
            if number == 14:
                server.fails = lambda asked: "partNumber" in asked or "uploadId" in asked and asked.startswith("POST")
                server.failures[:] = [403] * 2
            file.write(os.urandom(1 << 20))

    with pytest.raises(SnapshotError):
        location.write_state("large", write, 0)
    server.failures.clear()
    gc.collect()
    assert location.file_names() == []
    assert uploads(location) == []


def test_the_parts_of_a_killed_process_go_with_the_snapshot(location: SnapshotLocation, s3_place: Place) -> None:
    bucket, key, _ = location._fs.split_path(location._path)
    for name in (f"{key}/of-a-dead-slot", f"{key}0/of-another-checkpoint"):
        location._fs.call_s3("create_multipart_upload", Bucket=bucket, Key=name)
    location.write_state("a", lambda file: file.write(b"x" * 100), 0)
    location.discard()
    assert uploads(location) == [f"{key}0/of-another-checkpoint"]


def test_a_role_that_may_not_list_uploads_still_deletes_snapshots(location: SnapshotLocation, server: S3Server) -> None:
    location.write_metadata(b"m")
    server.fails = lambda asked: asked.startswith("GET") and "uploads" in asked
    server.failures[:] = [403]
    location.discard()
    assert (server.failures, location.exists) == ([], False)


def test_the_marker_of_a_folder_is_no_file(location: SnapshotLocation) -> None:
    bucket, key, _ = location._fs.split_path(location._path)
    location._fs.call_s3("put_object", Bucket=bucket, Key=f"{key}/", Body=b"")
    handle = location.write_state("a", lambda file: file.write(b"x" * 100), 0)
    assert location.file_names() == [handle.path]  # type: ignore[union-attr]


def test_a_server_that_is_gone_is_an_error_with_the_place() -> None:
    options = {"s3.endpoint": "http://127.0.0.1:9", "s3.access-key": "a", "s3.secret-key": "b", "s3.region": "us-east-1"}
    initialize(Configuration({**options, "s3.retry.max-num-retries": "0", "s3.connection.timeout": "1 s"}))
    with pytest.raises(SnapshotError, match="s3://bucket/chk-1"):
        _ = SnapshotLocation("s3://bucket/chk-1").exists


def test_the_settings_that_travel_hide_their_secrets(s3_place: Place) -> None:
    from pystate.common.configuration.file_system_settings import current_settings

    assert SECRET_KEY not in repr(current_settings())
    assert ACCESS_KEY not in repr(current_settings())
    assert SECRET_KEY not in repr(Configuration({"s3.secret-key": SECRET_KEY, "fs.s3a.access.key": ACCESS_KEY}))


def test_a_service_that_can_not_be_reached_is_an_error_of_the_system():
    options = {"s3.endpoint": "http://127.0.0.1:9", "s3.access-key": "a", "s3.secret-key": "b", "s3.region": "us-east-1"}
    initialize(Configuration({**options, "s3.retry.max-num-retries": "0"}))
    fs, path, _ = parse_location("s3://bucket/folder")

    for ask in (fs.ls, fs.info, fs.cat_file, fs.rm_file, lambda asked: store_of(fs).create(asked, b"")):
        with pytest.raises(OSError, match="Could not connect to the endpoint"):
            ask(f"{path}/file")


def test_missing_credentials_are_an_error_of_permission(monkeypatch):
    initialize(Configuration({"s3.endpoint": "http://127.0.0.1:9", "s3.region": "us-east-1"}))
    fs, path, _ = parse_location("s3://bucket/folder")

    with pytest.raises(PermissionError, match="Unable to locate credentials"):
        fs.info(f"{path}/file")
