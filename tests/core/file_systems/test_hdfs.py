"""HDFS: how a cluster is found, and what WebHDFS answers."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import HdfsSettings, initialize
from pystate.common.configuration.groups.file_system_options import HdfsClient
from pystate.common.errors import SnapshotError
from pystate.core.file_systems.file_stores import HdfsStore
from pystate.core.file_systems.hdfs import hdfs_file_system
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, parse_location
from tests.core.file_systems.conftest import Place
from tests.servers.hdfs_cluster import HdfsCluster, missing_libhdfs
from tests.waiting import LONGEST_S

REPOSITORY = Path(__file__).parents[4]

STATUS = {"type": "FILE", "length": 3, "modificationTime": 1_795_176_000_000, "pathSuffix": ""}


class NameNode(BaseHTTPRequestHandler):
    """Answers what it is told to, in turn; then that the file is there."""

    answers: list[tuple[int, dict[str, Any]]]
    asked: list[str]

    def _answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        status, content = self.answers.pop(0) if self.answers else (200, {"FileStatus": STATUS})
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def name_nodes() -> Iterator[list[tuple[str, type[NameNode]]]]:
    """Two of them."""
    servers = []
    for _ in range(2):
        handler = type("OneNameNode", (NameNode,), {"answers": [], "asked": []})
        servers.append((ThreadingHTTPServer(("127.0.0.1", 0), handler), handler))
    for server, _ in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [(f"127.0.0.1:{server.server_port}", handler) for server, handler in servers]
    for server, _ in servers:
        server.shutdown()
        server.server_close()


def remote(exception: str, message: str = "told to") -> dict[str, Any]:
    return {"RemoteException": {"exception": exception, "message": message}}


def reached_at(*addresses: str, retries: int = 0) -> Any:
    settings = HdfsSettings(client=HdfsClient.WEBHDFS, webhdfs_addresses=addresses, timeout_s=10, max_retries=retries)
    return hdfs_file_system("nn:8020", settings)


# -- which cluster


def write_settings(folder: Path, file: str, **values: str) -> None:
    entries = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in values.items())
    (folder / file).write_text(f"<configuration>{entries}</configuration>")


def addresses(text: str) -> tuple[str, list[str]]:
    fs, _, uri = parse_location(text)
    return uri, fs._urls


def test_the_name_node_comes_from_hadoops_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(tmp_path, "core-site.xml", **{"fs.defaultFS": "hdfs://nn.example:8020/"})
    write_settings(tmp_path, "hdfs-site.xml", **{"dfs.namenode.http-address": "0.0.0.0:50070"})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    expected = ("hdfs://nn.example:8020/a/b", ["http://nn.example:50070"])
    assert addresses("hdfs:///a/b/") == expected
    assert addresses("hdfs://nn.example:8020/a/b") == expected
    assert addresses("hdfs://other.example:8020/a")[1] == ["http://other.example:9870"]


def test_flinks_key_names_the_folder_of_those_settings(tmp_path: Path) -> None:
    write_settings(tmp_path, "core-site.xml", **{"fs.defaultFS": "hdfs://nn.example:8020"})
    initialize(Configuration({"fs.hdfs.hadoopconf": str(tmp_path)}))
    assert addresses("hdfs:///a")[0] == "hdfs://nn.example:8020/a"


def test_the_name_nodes_of_a_name_service_are_found(tmp_path: Path) -> None:
    write_settings(tmp_path, "core-site.xml", **{"fs.defaultFS": "hdfs://cluster"})
    write_settings(
        tmp_path,
        "hdfs-site.xml",
        **{
            "dfs.ha.namenodes.cluster": "nn1, nn2",
            "dfs.namenode.http-address.cluster.nn1": "one:9870",
            "dfs.namenode.http-address.cluster.nn2": "two:9870",
        },
    )
    initialize(Configuration({"env.hadoop.conf.dir": str(tmp_path)}))
    assert addresses("hdfs:///a") == ("hdfs://cluster/a", ["http://one:9870", "http://two:9870"])


def test_the_address_can_be_set() -> None:
    initialize(Configuration({"pystate.hdfs.webhdfs-address": "one:1, https://two:2"}))
    assert addresses("hdfs://nn:8020/a")[1] == ["http://one:1", "https://two:2"]
    assert addresses("hdfs:///a")[0] == "hdfs:///a"


def test_a_path_without_a_name_node_that_nothing_names_is_an_error() -> None:
    with pytest.raises(SnapshotError, match="names no name node") as raised:
        parse_location("hdfs:///a")
    assert "HADOOP_CONF_DIR" in str(raised.value)


def test_settings_that_are_no_xml_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration>")
    initialize(Configuration({"env.hadoop.conf.dir": str(tmp_path)}))
    with pytest.raises(SnapshotError, match="can't be read"):
        parse_location("hdfs:///a")


# -- which way


def test_an_error_names_both_ways_that_were_tried() -> None:
    initialize(Configuration({"pystate.hdfs.webhdfs-address": "127.0.0.1:9", "pystate.hdfs.max-retries": "0"}))
    with pytest.raises(SnapshotError) as raised:
        _ = SnapshotLocation("hdfs://nn:8020/x/chk-1").exists
    text = str(raised.value)
    assert "libhdfs: neither CLASSPATH nor HADOOP_HOME is set" in text
    assert "WebHDFS: http://127.0.0.1:9 does not answer" in text
    assert "refused" in text


def test_the_settings_that_are_named_are_the_first_that_java_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLASSPATH", os.pathsep.join(["/hadoop/a.jar", "/etc/hadoop"]))
    for folder in ("/etc/other", "/etc/other", "/etc/hadoop"):
        initialize(Configuration({"pystate.hdfs.client": "libhdfs", "env.hadoop.conf.dir": folder}))
        monkeypatch.setattr("pystate.core.file_systems.libhdfs.LibHdfsFileSystem", lambda *_: object())
        parse_location("hdfs://of-no-other-test:8020/x")
    assert os.environ["CLASSPATH"] == os.pathsep.join(["/etc/other", "/hadoop/a.jar", "/etc/hadoop"])


def test_libhdfs_alone_can_be_asked_for() -> None:
    initialize(Configuration({"pystate.hdfs.client": "libhdfs"}))
    with pytest.raises(SnapshotError, match="through libhdfs"):
        parse_location("hdfs://nn:8020/x")


# -- what it answers


def test_another_name_node_is_asked_where_one_stands_by(name_nodes: Any) -> None:
    (first, one), (second, two) = name_nodes
    one.answers.append((403, remote("StandbyException", "not me")))
    fs = reached_at(first, second)
    assert fs.info("/x")["size"] == 3
    assert (len(one.asked), len(two.asked)) == (1, 1)
    fs.info("/x")
    assert (len(one.asked), len(two.asked)) == (1, 2)


def test_another_name_node_is_asked_where_one_is_gone(name_nodes: Any) -> None:
    (second, two) = name_nodes[1]
    fs = reached_at("127.0.0.1:9", second)
    assert fs.info("/x")["type"] == "file"
    assert len(two.asked) == 1


def test_what_passes_is_tried_again(name_nodes: Any) -> None:
    (address, node) = name_nodes[0]
    node.answers += [(503, {}), (502, {})]
    assert reached_at(address, retries=3).info("/x")["size"] == 3
    assert len(node.asked) == 3


def test_repetitions_are_bounded(name_nodes: Any) -> None:
    (address, node) = name_nodes[0]
    node.answers += [(503, {})] * 20
    with pytest.raises(OSError, match="503"):
        reached_at(address, retries=2).info("/x")
    assert len(node.asked) == 3


@pytest.mark.parametrize(
    ("status", "exception", "error"),
    [
        (404, "FileNotFoundException", FileNotFoundError),
        (403, "AccessControlException", PermissionError),
        (403, "SafeModeException", OSError),
        (500, "IOException", OSError),
    ],
)
def test_errors_keep_their_meaning(name_nodes: Any, status: int, exception: str, error: type[OSError]) -> None:
    (address, node) = name_nodes[0]
    node.answers.append((status, remote(exception, "in the name node's words\nand a trace")))
    with pytest.raises(error, match="in the name node's words$"):
        reached_at(address).info("/x")


@pytest.mark.parametrize("question", ["exists", "isdir", "isfile"])
def test_an_error_is_not_taken_for_a_no(name_nodes: Any, question: str) -> None:
    (address, node) = name_nodes[0]
    node.answers.append((500, remote("IOException")))
    with pytest.raises(OSError):
        getattr(reached_at(address), question)("/x")
    node.answers.append((404, remote("FileNotFoundException")))
    assert getattr(reached_at(address), question)("/x") is False


def test_a_rename_that_came_to_nothing_is_an_error(name_nodes: Any) -> None:
    (address, node) = name_nodes[0]
    node.answers.append((200, {"boolean": False}))
    with pytest.raises(FileExistsError):
        reached_at(address).mv("/a", "/b")
    node.answers += [(200, {"boolean": False}), (404, remote("FileNotFoundException"))]
    with pytest.raises(OSError, match="did not rename"):
        reached_at(address).mv("/a", "/b")
    node.answers.append((200, {"boolean": False}))
    with pytest.raises(OSError, match="did not make"):
        reached_at(address).makedirs("/a", exist_ok=True)


def test_a_name_that_was_taken_when_it_was_asked_for_is_asked_for_again(name_nodes: Any) -> None:
    (address, node) = name_nodes[0]
    gone = (404, remote("FileNotFoundException"))
    node.answers += [(200, {"boolean": False}), gone, gone, (200, {"boolean": True})]
    HdfsStore(reached_at(address)).rename_new("/a", "/b")
    assert node.answers == []
    node.answers += [(200, {"boolean": False}), gone, gone] * 3
    with pytest.raises(OSError, match="did not rename"):
        HdfsStore(reached_at(address)).rename_new("/a", "/b")
    assert node.answers == []


def test_bytes_that_are_missing_are_noticed(name_nodes: Any) -> None:
    (address, node) = name_nodes[0]
    node.answers += [(200, {"FileStatus": {**STATUS, "length": 1000}}), (200, {})]
    with reached_at(address).open("/x", "rb") as file, pytest.raises(OSError, match="came instead of 1000"):
        file.read()


# -- a real cluster


def test_hdfs_without_a_name_node_is_that_of_the_settings(hdfs_place: Place, hdfs_cluster: HdfsCluster) -> None:
    location = SnapshotLocation(f"{hdfs_place.uri}/chk-1")
    location.create()
    location.write_metadata(b"m")
    path = location.uri.removeprefix(f"hdfs://{hdfs_cluster.address}")
    other = SnapshotLocation(f"hdfs://{path}")
    assert other == location
    assert other.read_metadata() == b"m"


def test_a_writer_that_comes_after_the_deletion_makes_no_new_directory(hdfs_place: Place) -> None:
    location = SnapshotLocation(f"{hdfs_place.uri}/chk-1")
    location.create()
    location.discard()
    with pytest.raises(SnapshotError, match="chk-1"):
        location.write_state("a", lambda file: file.write(b"x" * 100), 0)
    with pytest.raises(SnapshotError, match="chk-1"):
        location.write_metadata(b"m")
    assert location.file_names() == []


def test_a_rename_takes_no_name_that_is_taken(hdfs_place: Place) -> None:
    fs, path, _ = parse_location(hdfs_place.uri)
    fs.makedirs(path, exist_ok=True)
    for name in ("old", "taken"):
        fs.pipe_file(f"{path}/{name}", name.encode())
    with pytest.raises(FileExistsError):
        fs.mv(f"{path}/old", f"{path}/taken")
    assert (fs.cat_file(f"{path}/old"), fs.cat_file(f"{path}/taken")) == (b"old", b"taken")
    for source, target in (("gone", "new"), ("old", "no/such/directory")):
        with pytest.raises(OSError, match="rename"):
            fs.mv(f"{path}/{source}", f"{path}/{target}")


def test_a_cluster_that_is_out_of_reach_has_not_lost_its_files(hdfs_place: Place, hdfs_cluster: HdfsCluster) -> None:
    there, path, _ = parse_location(hdfs_place.uri)
    there.makedirs(path, exist_ok=True)
    settings = {"pystate.hdfs.client": hdfs_place.kind, "pystate.hdfs.webhdfs-address": "127.0.0.1:9"}
    initialize(Configuration({**settings, "pystate.hdfs.max-retries": "0"}))
    gone, _, _ = parse_location(f"hdfs://127.0.0.1:9{path}")
    for question in (gone.exists, gone.isdir, gone.isfile, gone.info, gone.ls):
        with pytest.raises(OSError, match="refused") as raised:
            question(path)
        assert not isinstance(raised.value, FileNotFoundError)
    with pytest.raises(SnapshotError, match="refused"):
        _ = SnapshotLocation(f"hdfs://127.0.0.1:9{path}").exists


def test_a_file_gets_as_many_replicas_as_the_cluster_says(hdfs_place: Place, hdfs_cluster: HdfsCluster) -> None:
    location = SnapshotLocation(f"{hdfs_place.uri}/chk-1")
    location.create()
    location.write_metadata(b"m")
    initialize(Configuration({"pystate.hdfs.webhdfs-address": hdfs_cluster.webhdfs, "pystate.hdfs.client": "webhdfs"}))
    fs, path, _ = parse_location(f"{location.uri}/_metadata")
    assert fs.info(path)["replication"] == 1  # pyarrow asks for three unless it is told otherwise


def test_what_is_gone_can_be_deleted_again(hdfs_place: Place) -> None:
    fs, path, _ = parse_location(hdfs_place.uri)
    fs.makedirs(f"{path}/a", exist_ok=True)
    for recursive in (True, False):
        with contextlib.suppress(FileNotFoundError):
            fs.rm(f"{path}/none", recursive=recursive)
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(f"{path}/none")
    with pytest.raises((OSError, ValueError)):
        fs.rm(path)
    assert fs.exists(f"{path}/a")


def in_a_process_with_libhdfs(cluster: HdfsCluster, code: str) -> str:
    """Run code that has `fs` and `path` of a new directory; return what it prints."""
    begin = f"""
import os, signal, sys
from pystate.core.snapshot.storage.snapshot_location import parse_location
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize
def at(client):
    initialize(Configuration({{"pystate.hdfs.client": client, "env.hadoop.conf.dir": {str(cluster.conf_dir)!r}}}))
    return parse_location("hdfs://{cluster.address}/{secrets.token_hex(6)}")[:2]
"""
    environment = {**os.environ, **cluster.libhdfs_environment, "PYTHONPATH": f"{REPOSITORY}/runtime"}
    done = subprocess.run(
        [sys.executable, "-c", begin + code], capture_output=True, text=True, env=environment, check=False, timeout=LONGEST_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def libhdfs_cluster(request: pytest.FixtureRequest) -> HdfsCluster:
    reason = missing_libhdfs()
    if reason is not None:
        pytest.skip(reason)
    cluster: HdfsCluster = request.getfixturevalue("hdfs_cluster")
    return cluster


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_java_takes_no_signal_from_the_process_it_runs_in(libhdfs_cluster: HdfsCluster, name: str) -> None:
    code = f"""
signal.signal(signal.{name}, lambda *_: print("heeded"))
fs, path = at("libhdfs")
fs.makedirs(path, exist_ok=True)
signal.raise_signal(signal.{name})
print(fs.isdir(path))
"""
    assert in_a_process_with_libhdfs(libhdfs_cluster, code) == "heeded\nTrue\n"


def test_a_forked_process_takes_the_other_way(libhdfs_cluster: HdfsCluster) -> None:
    code = """
fs, path = at("libhdfs")
fs.makedirs(path, exist_ok=True)
child = os.fork()
if child == 0:
    try:
        at("libhdfs")
    except Exception as error:
        print(error.message)
    fs, _ = at("auto")
    print(type(fs).__name__, fs.isdir(path), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(type(at("auto")[0]).__name__)
"""
    forked, web, own = in_a_process_with_libhdfs(libhdfs_cluster, code).splitlines()
    assert "this process was forked from one that uses libhdfs" in forked
    assert (web, own) == ("WebHdfsFileSystem True", "LibHdfsFileSystem")


@pytest.mark.parametrize(
    ("option", "folder", "file"), [({}, "700", "600"), ({"pystate.storage.umask": "027"}, "750", "640")]
)
def test_modes_on_hdfs_are_those_of_the_option(name_nodes: Any, option: dict[str, str], folder: str, file: str) -> None:
    initialize(Configuration(option))
    (address, node), _ = name_nodes
    fs = reached_at(address)
    node.answers += [(200, {"boolean": True}), (200, {})]

    fs.makedirs("/data/chk-1", exist_ok=True)
    with fs.open("/data/chk-1/state", "wb") as written:
        written.write(b"12345")

    made, created = (next(line for line in node.asked if f"op={op}" in line) for op in ("MKDIRS", "CREATE"))
    assert f"permission={folder}" in made
    assert f"permission={file}" in created
