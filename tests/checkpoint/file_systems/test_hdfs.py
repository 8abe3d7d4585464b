"""HDFS: how a cluster is found, and what WebHDFS answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pystate.checkpoint.file_systems.hdfs import hdfs_file_system
from pystate.checkpoint.storage import SnapshotLocation, parse_location
from pystate.common.configuration import Configuration
from pystate.common.errors import SnapshotError
from pystate.common.file_system_options import HdfsClient
from pystate.common.file_system_settings import HdfsSettings, initialize
from tests.checkpoint.file_systems.conftest import Place
from tests.servers.hdfs_cluster import HdfsCluster

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
