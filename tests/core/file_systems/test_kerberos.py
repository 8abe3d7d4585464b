"""Kerberos: the log-in by keytab and by ticket, and servers that ask for it."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import KerberosSettings, initialize
from pystate.common.errors import ConfigurationError, StorageError
from pystate.core.file_systems import gssapi
from pystate.core.file_systems.kerberos import KerberosLogin
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, parse_location, resolve_snapshot
from tests.servers.kdc import REALM, Kdc, running_kdc
from tests.servers.secured_hdfs import COOKIE_S
from tests.waiting import LONGEST_S, wait_until

STATUS = {"type": "FILE", "length": 3, "modificationTime": 1_795_176_000_000, "pathSuffix": ""}
COOKIE = 'hadoop.auth="u=alice&s=1"'
KEYTAB, PRINCIPAL = "security.kerberos.login.keytab", "security.kerberos.login.principal"
TICKET_CACHE = "security.kerberos.login.use-ticket-cache"


class SecuredNameNode(BaseHTTPRequestHandler):
    """Asks for a proof unless its cookie comes, and believes each that has the form of one."""

    asked: list[tuple[str, str]]
    takes_cookies = True
    takes_proofs = True

    def do_GET(self) -> None:
        proof = self.headers.get("Authorization") or ""
        cookie = self.headers.get("Cookie") or ""
        self.asked.append((self.path, "proof" if proof else "cookie" if COOKIE in cookie else "nothing"))
        proven = proof.startswith("Negotiate ") and base64.b64decode(proof.split()[1])[:1] == b"\x60"
        if proven and not self.takes_proofs:
            self._send(403, b"", "GSSException: Clock skew too great (37)", {})
        elif proven or (COOKIE in cookie and self.takes_cookies):
            self._send(200, json.dumps({"FileStatus": STATUS}).encode(), "OK", {"Set-Cookie": f"{COOKIE}; Path=/; HttpOnly"})
        else:
            headers = {"WWW-Authenticate": "Negotiate", "Set-Cookie": "hadoop.auth=; Path=/; HttpOnly"}
            self._send(401, b"<html></html>", "Authentication required", headers)

    def _send(self, status: int, content: bytes, reason: str, headers: dict[str, str]) -> None:
        self.send_response(status, reason)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def name_node() -> Iterator[tuple[str, type[SecuredNameNode]]]:
    handler = type("OneNameNode", (SecuredNameNode,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"localhost:{server.server_port}", handler
    server.shutdown()
    server.server_close()


@pytest.fixture
def realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kdc:
    """The realm, for this process, which has no ticket."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/cache")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
    return kdc


@pytest.fixture
def alice(realm: Kdc, tmp_path: Path) -> Path:
    """A keytab of alice's."""
    realm.add("alice", "HTTP/localhost")
    return realm.export(f"alice-{tmp_path.name}.keytab", "alice")


def login_by(keytab: Path | None = None, principal: str | None = None) -> KerberosLogin:
    return KerberosLogin(KerberosSettings(None if keytab is None else str(keytab), principal))


def file_system(address: str, **options: str) -> Any:
    initialize(Configuration({"pystate.hdfs.client": "webhdfs", "pystate.hdfs.webhdfs-address": address, **options}))
    return parse_location("hdfs://nn/a")[0]


# -- the log-in


def test_a_keytab_logs_in(alice: Path) -> None:
    login = login_by(alice, "alice")
    found = login.login()
    assert found.name == f"alice@{REALM}"
    assert 0 < found.seconds <= 3600
    assert login.token("localhost")[:1] == b"\x60"


def test_a_ticket_of_kinit_logs_in(alice: Path, realm: Kdc, tmp_path: Path) -> None:
    realm.kinit(alice, "alice", tmp_path / "cache")
    assert login_by().login().name == f"alice@{REALM}"
    assert login_by().token("localhost")
    assert login_by(principal="alice").login().name == f"alice@{REALM}"


def test_several_threads_log_in_by_one_ticket(alice: Path, realm: Kdc) -> None:
    login, before, tokens = login_by(alice, "alice"), realm.tickets_given("alice"), []
    threads = [threading.Thread(target=lambda: tokens.append(login.token("localhost"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    assert len(tokens) == 8
    assert realm.tickets_given("alice") == before + 1


def test_a_ticket_that_ends_is_renewed_by_the_keytab(realm: Kdc) -> None:
    realm.add("brief", longest="2seconds")
    realm.add("HTTP/localhost")
    login = login_by(realm.export("brief.keytab", "brief"), "brief")
    assert 0 < login.login().seconds <= 2
    before = realm.tickets_given("brief")
    time.sleep(2.1)
    assert login.token("localhost")
    assert 0 < login.login().seconds <= 2
    assert realm.tickets_given("brief") > before


def test_without_a_ticket_the_error_says_what_to_do(realm: Kdc) -> None:
    with pytest.raises(StorageError, match="Kerberos: No ") as raised:
        login_by().login()
    assert raised.value.where == "the ticket cache of kinit"
    assert raised.value.hint == f"kinit, or set {KEYTAB} and {PRINCIPAL}"


def test_an_expired_ticket_is_told_as_one(alice: Path, realm: Kdc, tmp_path: Path) -> None:
    realm.kinit(alice, "alice", tmp_path / "cache", lifetime="1s")
    time.sleep(2.1)
    with pytest.raises(StorageError, match="Kerberos: Ticket expired") as raised:
        login_by().token("localhost")
    assert str(raised.value.hint).startswith("kinit")


def test_a_keytab_without_keys_of_the_principal(alice: Path) -> None:
    with pytest.raises(StorageError, match="no log-in as carol") as raised:
        login_by(alice, "carol").login()
    assert raised.value.where == f"{KEYTAB} = {alice}"
    assert f"klist -k {alice}" in str(raised.value.hint)


def test_a_keytab_that_the_kdc_has_newer_keys_than(alice: Path, realm: Kdc) -> None:
    realm.export("newer.keytab", "alice")
    with pytest.raises(StorageError) as raised:
        login_by(alice, "alice").login()
    assert "newer key" in str(raised.value.hint)


def test_a_server_that_the_kdc_does_not_know(alice: Path) -> None:
    with pytest.raises(StorageError, match="Server HTTP/elsewhere.* not found") as raised:
        login_by(alice, "alice").token("elsewhere")
    assert "pystate.hdfs.webhdfs-address" in str(raised.value.hint)


def test_a_kdc_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with running_kdc(tmp_path) as own:
        monkeypatch.setenv("KRB5_CONFIG", str(own.krb5_conf))
        own.add("alice")
        login = login_by(own.export("alice.keytab", "alice"), "alice")
        own.stop()
        with pytest.raises(StorageError, match="Cannot contact any KDC") as raised:
            login.login()
        assert "KRB5_CONFIG" in str(raised.value.hint)
        own.start()
        assert login.login().name == f"alice@{REALM}"


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssapi, "LIBRARY", "libgssapi_krb5-of-no-one.so.2")
    gssapi.load.cache_clear()
    try:
        with pytest.raises(StorageError, match="library can't be loaded") as raised:
            login_by().login()
    finally:
        gssapi.load.cache_clear()
    assert "libgssapi-krb5-2" in str(raised.value.hint)


# -- the settings


def test_a_keytab_needs_a_principal() -> None:
    with pytest.raises(ConfigurationError, match=PRINCIPAL) as raised:
        initialize(Configuration({KEYTAB: "/etc/a.keytab"}))
    assert raised.value.where == "/etc/a.keytab"


def test_a_keytab_is_looked_at_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file") as raised:
        file_system("localhost:1", **{KEYTAB: str(tmp_path / "none"), PRINCIPAL: "alice"})
    assert raised.value.where == f"{KEYTAB} = {tmp_path}/none"
    tmp_path.joinpath("text").write_text("no keytab")
    with pytest.raises(StorageError, match="no keytab"):
        file_system("localhost:1", **{KEYTAB: str(tmp_path / "text"), PRINCIPAL: "alice"})


# -- servers


def test_a_server_that_asks_gets_a_proof_once_then_its_cookie(
    alice: Path, name_node: tuple[str, type[SecuredNameNode]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    address, handler = name_node
    fs = file_system(address, **{KEYTAB: str(alice), PRINCIPAL: "alice"})
    assert fs.kerberos_login is None
    assert fs.exists("/a")
    assert fs.exists("/a")
    assert [how for _, how in handler.asked] == ["nothing", "proof", "cookie"]
    assert ["user.name" in path for path, _ in handler.asked] == [True, False, False]
    assert fs.kerberos_login is not None
    handler.takes_cookies = False
    assert fs.exists("/a")
    assert [how for _, how in handler.asked[3:]] == ["cookie", "proof"]


def test_hadoops_settings_say_that_a_proof_is_needed(
    alice: Path, name_node: tuple[str, type[SecuredNameNode]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    entry = "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{entry}</configuration>")
    address, handler = name_node
    options = {"env.hadoop.conf.dir": str(tmp_path), KEYTAB: str(alice), PRINCIPAL: "alice"}
    assert file_system(address, **options).exists("/a")
    assert [(how, "user.name" in path) for path, how in handler.asked] == [("proof", False)]
    with pytest.raises(StorageError, match=f"{KEYTAB} is not set"):
        file_system(address, **{"env.hadoop.conf.dir": str(tmp_path), TICKET_CACHE: "false"})


def test_a_server_that_refuses_the_proof(alice: Path, name_node: tuple[str, type[SecuredNameNode]]) -> None:
    address, handler = name_node
    handler.takes_proofs = False
    fs = file_system(address, **{KEYTAB: str(alice), PRINCIPAL: "alice"})
    with pytest.raises(StorageError, match="refuses the Kerberos log-in: .*Clock skew too great") as raised:
        fs.exists("/a")
    assert "set the clocks" in str(raised.value.hint)


def test_a_server_that_asks_where_nothing_may_be_used(name_node: tuple[str, type[SecuredNameNode]]) -> None:
    address, _ = name_node
    with pytest.raises(StorageError, match=f"{TICKET_CACHE} is false"):
        file_system(address, **{TICKET_CACHE: "false"}).exists("/a")


# -- a cluster


def ready(conf_dir: Path, **options: str) -> None:
    """Wait until the name node has its data node."""
    initialize(Configuration({"pystate.hdfs.client": "webhdfs", "env.hadoop.conf.dir": str(conf_dir), **options}))
    fs, _, _ = parse_location("hdfs:///ready")

    def is_made() -> bool:
        try:
            fs.mkdir("/ready")
        except OSError as error:
            assert "safe mode" in str(error).lower()
            return False
        return True

    wait_until(is_made)


def write_and_restore(name: str) -> SnapshotLocation:
    location = SnapshotLocation(f"hdfs:///{name}/chk-1")
    location.create()
    handle = location.write_state("count-0", lambda file: file.write(b"state" * 4_000_000), 0)
    location.write_metadata(b"all of it")
    found = resolve_snapshot(location.uri)
    assert found.read_metadata() == b"all of it"
    with found.open(handle) as file:
        assert file.read() == b"state" * 4_000_000
    return location


@pytest.mark.slow
def test_a_checkpoint_is_written_and_restored_by_a_keytab(secured_hdfs: Path, realm: Kdc) -> None:
    realm.add("hasty", longest="3seconds")
    keytab = realm.export("hasty.keytab", "hasty")
    ready(secured_hdfs, **{KEYTAB: str(keytab), PRINCIPAL: "hasty"})
    write_and_restore("keytab")
    before = realm.tickets_given("hasty")
    time.sleep(3 + COOKIE_S)  # neither the ticket nor the cookie outlives it
    location = write_and_restore("keytab-again")
    assert realm.tickets_given("hasty") > before
    fs, path, _ = parse_location(location.uri)
    assert [entry["owner"] for entry in fs.ls(path, detail=True)] == ["hasty", "hasty"]
    location.discard()
    assert not fs.exists(path)


@pytest.mark.slow
def test_a_checkpoint_is_written_and_restored_by_a_ticket(
    secured_hdfs: Path, alice: Path, realm: Kdc, tmp_path: Path
) -> None:
    realm.kinit(alice, "alice", tmp_path / "cache")
    ready(secured_hdfs)
    write_and_restore("ticket")


@pytest.mark.slow
def test_a_cluster_refuses_who_has_no_ticket(secured_hdfs: Path, realm: Kdc) -> None:
    # other settings than those of other tests, whose connection may have a cookie
    options = {"pystate.hdfs.client": "webhdfs", "env.hadoop.conf.dir": str(secured_hdfs), "pystate.hdfs.max-retries": "1"}
    initialize(Configuration(options))
    with pytest.raises(StorageError, match="Kerberos: No ") as raised:
        SnapshotLocation("hdfs:///no-ticket/chk-1").create()
    assert "kinit" in str(raised.value.hint)
