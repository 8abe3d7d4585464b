from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, PystateError
from pystate.core.file_systems.file_stores import S3Store, store_of
from pystate.core.file_systems.places import parse_location
from pystate.ops.jobmanager.high_availability.lease import ObservedLease
from pystate.ops.jobmanager.high_availability.lease_files import LeaseFiles, LeaseStore, host_and_port
from pystate.ops.jobmanager.high_availability.lease_objects import LeaseObjects
from pystate.ops.jobmanager.high_availability.object_storage import ObjectStorage
from pystate.ops.jobmanager.high_availability.shared_storage import FolderStorage, shared_storage
from tests.core.file_systems.conftest import make_place


def configured(path: object, **others: str) -> Configuration:
    values = {"high-availability.type": "filesystem", "high-availability.storageDir": str(path)}
    return Configuration({**values, **{f"high-availability.{key.replace('_', '-')}": text for key, text in others.items()}})


def test_without_high_availability_there_is_no_storage(tmp_path):
    assert shared_storage(Configuration({"high-availability.storageDir": str(tmp_path)})) is None


@pytest.mark.parametrize("text", ["{}", "file:{}", "file://{}", "local:{}"])
def test_the_storage_is_a_folder_per_cluster(tmp_path, text):
    assert shared_storage(configured(text.format(tmp_path))).root == tmp_path / "default"
    assert shared_storage(configured(text.format(tmp_path), cluster_id="/team/a")).root == tmp_path / "team" / "a"


@pytest.mark.parametrize("url", ["memory://ha", "gs://bucket/ha", "file://host/ha"])
def test_storage_that_can_not_make_a_file_only_once_is_refused_with_the_reason(url):
    with pytest.raises(ConfigurationError, match="how to make a file only once") as caught:
        shared_storage(configured(url))
    assert caught.value.where == "high-availability.storageDir"


@pytest.mark.parametrize("name", ["..", "a/../b", "", "a b", "-x"])
def test_a_cluster_id_can_not_lead_elsewhere(tmp_path, name):
    with pytest.raises(ConfigurationError, match="must be a name"):
        shared_storage(configured(tmp_path, cluster_id=name))


def test_a_missing_storage_dir_is_said(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        shared_storage(Configuration({"high-availability": "filesystem"}))
    assert caught.value.hint == "set high-availability.storageDir"


def test_all_job_managers_get_the_same_token_which_nobody_else_can_read(tmp_path):
    storage = FolderStorage(tmp_path / "ha")
    assert (storage.is_there, storage.token()) == (False, None)
    tokens: set[str] = set()
    threads = [threading.Thread(target=lambda: tokens.add(FolderStorage(tmp_path / "ha").prepare())) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert tokens == {storage.token()}
    assert storage.is_there
    assert (tmp_path / "ha" / "token").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ha").stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(tmp_path / "ha")) == ["jobs", "leader", "token"]


def no_links(_source: object, _target: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_file_system_without_links_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links)

    with pytest.raises(PystateError, match="has no hard links"):
        FolderStorage(tmp_path / "ha").prepare()


def test_a_file_system_that_ignores_modes_is_refused(tmp_path, monkeypatch):
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, mode=0o777: real(path, flags, 0o644))

    with pytest.raises(PystateError, match="ignores file modes"):
        FolderStorage(tmp_path / "ha").prepare()


@pytest.fixture(params=["files", "local", "s3", "webhdfs", "libhdfs"])
def lease(request: pytest.FixtureRequest, tmp_path: Path) -> LeaseStore:
    if request.param == "files":
        return LeaseFiles(tmp_path)
    fs, path, _ = parse_location(f"{make_place(request.param, request).uri}/leader")
    store_of(fs).make_directory(path)
    return LeaseObjects(fs, path)


@pytest.fixture(params=["s3", "webhdfs", "libhdfs"])
def objects(request: pytest.FixtureRequest) -> str:
    return make_place(request.param, request).uri


def test_object_storage_holds_a_place_per_cluster_and_one_token_for_all(objects):
    storage = shared_storage(configured(f"{objects}/", cluster_id="/team/a"))
    assert isinstance(storage, ObjectStorage)
    assert storage.uri == f"{objects}/team/a"
    assert (storage.is_there, storage.token(), storage.lease.leader()) == (False, None, None)
    tokens: set[str] = set()
    threads = [threading.Thread(target=lambda: tokens.add(ObjectStorage(storage.uri).prepare())) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert tokens == {storage.token()}
    assert (storage.is_there, len(storage.token())) == (True, 64)
    assert storage.prepare() == storage.token()


def test_a_service_that_ignores_the_condition_is_refused(request, monkeypatch):
    place = make_place("s3", request)
    monkeypatch.setattr(S3Store, "create", lambda self, path, data: self.fs.pipe_file(path, data))

    with pytest.raises(PystateError, match="gives the same name twice") as caught:
        ObjectStorage(place.uri).prepare()
    assert caught.value.where == place.uri


def test_a_service_that_does_not_know_the_condition_is_refused(request):
    place = make_place("s3", request)
    place.s3.fails = lambda asked: asked.startswith("PUT")
    place.s3.failures[:] = [501]

    with pytest.raises(PystateError, match="doesn't know conditional requests"):
        ObjectStorage(place.uri).prepare()


def test_a_bucket_that_is_not_there_is_said(request):
    make_place("s3", request)

    with pytest.raises(PystateError, match="The storage for high availability can't be used"):
        ObjectStorage("s3://no-such-bucket-of-ours/ha").prepare()


ENTRY = {"address": "127.0.0.1", "port": 8081}


def test_a_token_is_given_to_one_of_many_who_ask_at_the_same_time(lease):
    for token in range(1, 20 if isinstance(lease, LeaseFiles) else 5):
        won: list[int] = []
        barrier = threading.Barrier(6)

        def ask(number: int, token: int = token, barrier: threading.Barrier = barrier, won: list[int] = won) -> None:
            barrier.wait()
            if lease.take(token, {**ENTRY, "port": number}):
                won.append(number)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(won) == 1
        assert lease.leader() == {**ENTRY, "port": won[0], "token": token}


def test_each_renewal_is_another_sign_of_life(lease):
    assert (lease.highest_token(), lease.observed(), lease.leader()) == (0, None, None)
    lease.take(1, ENTRY)
    seen = [lease.observed()]
    assert seen == [ObservedLease(1, "")]
    for _ in range(3):
        lease.renew(1)
        assert lease.observed() not in seen
        seen.append(lease.observed())
    assert lease.observed() == seen[-1]
    lease.release(1)
    assert lease.observed().released
    assert lease.leader() is None


def test_a_candidate_that_slept_gets_no_token_below_the_highest(lease):
    for token in (1, 2, 3):
        assert lease.take(token, ENTRY)
        lease.renew(token)
    lease.complete(3)
    assert set(lease._tokens("leader")) == {3}

    assert not lease.take(2, ENTRY)
    assert not lease.take(3, ENTRY)
    assert lease.highest_token() == lease.latest_complete() == 3


def test_the_address_in_an_entry_is_one_of_a_url():
    assert host_and_port(ENTRY) == "127.0.0.1:8081"
    assert host_and_port({"address": "::1", "port": 1}) == "[::1]:1"


@pytest.mark.parametrize("name", ["", "jobs", "leader"])
def test_folders_that_others_could_write_to_are_closed_and_said(tmp_path, name, caplog):
    storage = FolderStorage(tmp_path / "ha")
    storage.prepare()
    (storage.root / name).chmod(0o777)
    with caplog.at_level("WARNING"):
        storage.prepare()
    assert (storage.root / name).stat().st_mode & 0o777 == 0o700
    assert "so that others could change it; it is 700 now" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
@pytest.mark.parametrize("name", ["", "jobs", "leader", "token"])
def test_what_belongs_to_another_user_names_no_leader(tmp_path, name):
    storage = FolderStorage(tmp_path / "ha")
    storage.prepare()
    os.chown(storage.root / name, 65534, 65534)
    with pytest.raises(PystateError, match="belongs to") as raised:
        storage.prepare()
    assert "high-availability.storageDir" in raised.value.hint
