"""An HDFS with Kerberos on loopback: a name node and a data node, from the jars that `make servers` brings."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from pystate.common.processes.java import find_java
from tests.servers.hdfs_cluster import JARS
from tests.servers.kdc import REALM, Kdc
from tests.servers.nginx import free_port
from tests.waiting import LONGEST_S, wait_until

COOKIE_S = 2
"""How long the name node's cookie stands for the log-in."""
_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


@contextmanager
def running_secured_hdfs(folder: Path, kdc: Kdc) -> Iterator[Path]:
    """Run it; gives its HADOOP_CONF_DIR. Until the data node has registered, nothing can be made in it (safe mode)."""
    kdc.add("nn/localhost", "dn/localhost", "HTTP/localhost")
    keytab = kdc.export("servers.keytab", "nn/localhost", "dn/localhost", "HTTP/localhost")
    conf_dir = folder / "conf"
    for name in ("hdfs", "datanode"):  # which the servers want to find beside their web pages
        (conf_dir / "webapps" / name).mkdir(parents=True)
    settings = _settings(folder, keytab)
    entries = "".join(
        f"<property><name>{name}</name><value>{escape(text)}</value></property>" for name, text in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (conf_dir / name).write_text(f"<configuration>{entries}</configuration>")
    started: list[subprocess.Popen[bytes]] = []
    log = folder / "log.txt"
    with log.open("ab") as output:

        def start(*arguments: str) -> subprocess.Popen[bytes]:
            command = [*_java(conf_dir, kdc), *arguments]
            started.append(subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL))
            return started[-1]

        try:
            assert start(_NAME_NODE, "-format", "-force").wait(LONGEST_S) == 0, log.read_text("utf-8", "replace")
            servers = [start(_NAME_NODE), start(_DATA_NODE)]

            def is_there() -> bool:
                assert all(server.poll() is None for server in servers), log.read_text("utf-8", "replace")
                return _answers(settings["dfs.namenode.http-address"])

            wait_until(is_there)
            yield conf_dir
        finally:
            for process in started:
                process.kill()
                process.wait(LONGEST_S)


def _answers(address: str) -> bool:
    """Whether a web server answers, be it that it doesn't know us."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/", timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _settings(folder: Path, keytab: Path) -> dict[str, str]:
    data = {
        name: f"localhost:{free_port()}"
        for name in ("dfs.datanode.address", "dfs.datanode.http.address", "dfs.datanode.ipc.address")
    }
    return {
        **data,
        "fs.defaultFS": f"hdfs://localhost:{free_port()}",
        "dfs.namenode.http-address": f"localhost:{free_port()}",
        "dfs.namenode.name.dir": f"file://{folder}/name",
        "dfs.datanode.data.dir": f"file://{folder}/data",
        "hadoop.tmp.dir": f"{folder}/tmp",
        "dfs.datanode.hostname": "localhost",
        "dfs.namenode.safemode.min.datanodes": "1",
        "dfs.namenode.safemode.extension": "0",
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
        "hadoop.security.authentication": "kerberos",
        "dfs.namenode.kerberos.principal": f"nn/localhost@{REALM}",
        "dfs.namenode.keytab.file": str(keytab),
        "dfs.datanode.kerberos.principal": f"dn/localhost@{REALM}",
        "dfs.datanode.keytab.file": str(keytab),
        "dfs.block.access.token.enable": "true",
        "ignore.secure.ports.for.testing": "true",
        "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "dfs.web.authentication.kerberos.keytab": str(keytab),
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "hadoop.http.authentication.kerberos.keytab": str(keytab),
        "hadoop.http.authentication.token.validity": str(COOKIE_S),
    }


def _java(conf_dir: Path, kdc: Kdc) -> list[str]:
    return [
        str(find_java().executable),
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Djava.security.krb5.conf={kdc.krb5_conf}",
        *("-cp", os.pathsep.join([str(conf_dir), f"{JARS}/*"])),
    ]
