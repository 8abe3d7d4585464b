"""Which archive of Spark's classes a JVM is started with."""

import os
import time

import pytest

from pystate.common.processes.java import JavaHome
from pystate.runtime.spark.sessions.class_data_archive import (
    archive_folder,
    archive_options,
    archive_path,
    recording_options,
    remove_unused,
)

SHARES = "OpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode, sharing)"


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return {"XDG_CACHE_HOME": str(tmp_path / "a cache"), "SPARK_HOME": str(tmp_path / "spark")}


@pytest.fixture
def java(tmp_path):
    return JavaHome(tmp_path / "java", 17, "PATH", tmp_path, runtime=SHARES)


@pytest.fixture
def archive(java, environ):
    path = archive_path(java, environ)
    path.parent.mkdir(mode=0o700, parents=True)
    path.write_bytes(b"classes")
    path.chmod(0o444)
    return path


def test_an_archive_that_is_there_is_used_and_kept(java, environ, archive):
    os.utime(archive, (1, 1))
    assert f'"-XX:SharedArchiveFile={archive}"' in archive_options(java, environ, "-Xmx4g")
    assert time.time() - archive.stat().st_mtime < 60, "it is in use"
    remove_unused(archive.parent, time.time() - 60)
    assert archive.exists()
    os.utime(archive, (1, 1))
    remove_unused(archive.parent, time.time() - 60)
    assert not archive.exists()


def test_without_an_archive_there_are_no_options(java, environ):
    assert archive_options(java, environ, "") == ""


@pytest.mark.parametrize("users", ["-Xshare:off", "-XX:SharedArchiveFile=/x", recording_options("/x")])
def test_a_choice_of_the_users_own_stays_alone(java, environ, archive, users):
    assert archive_options(java, environ, users) == ""


def test_a_file_that_others_could_have_written_is_not_run(java, environ, archive):
    archive.chmod(0o666)
    assert archive_options(java, environ, "") == ""
    archive.chmod(0o444)
    assert archive_options(java, environ, "") != ""
    archive.parent.chmod(0o777)
    assert archive_options(java, environ, "") == ""
    archive.parent.chmod(0o700)
    real = archive.with_name("real")
    archive.rename(real)
    archive.symlink_to(real)
    assert archive_options(java, environ, "") == ""


def test_a_java_without_an_archive_of_its_own_has_none(java, environ, archive):
    other = JavaHome(
        java.executable, 17, "PATH", java.home, runtime="OpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode)"
    )
    assert archive_path(other, environ) is None
    assert archive_options(other, environ, "") == ""


def test_another_java_or_spark_has_another_archive(java, environ, tmp_path):
    newer = JavaHome(java.executable, 17, "PATH", java.home, runtime=SHARES.replace("15+6", "16+1"))
    assert archive_path(newer, environ) != archive_path(java, environ)
    before = archive_path(java, environ)
    os.utime(tmp_path / "spark" / "jars", (1, 1))  # a jar was put in
    assert archive_path(java, environ) != before
    assert archive_path(java, {**environ, "SPARK_HOME": str(tmp_path / "none")}) is None


def test_the_folder_is_the_users_cache(tmp_path):
    assert archive_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "pystate"
    assert archive_folder({"HOME": str(tmp_path), "XDG_CACHE_HOME": "/c"}).as_posix() == "/c/pystate"
