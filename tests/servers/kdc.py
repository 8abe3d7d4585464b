"""A Kerberos realm on loopback, where MIT's KDC is installed, with its database, keytabs and settings in a test's folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.nginx import free_port
from tests.waiting import LONGEST_S, wait_until

REALM = "TESTS.PYSTATE"
_SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_CLIENTS = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
_SERVER = """\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  max_life = 1h
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
"""


def missing() -> str | None:
    """Say why there is no KDC here; None where there is one."""
    if all(shutil.which(program, path=_SEARCHED) for program in _PROGRAMS):
        return None
    return "there is no KDC here: on Debian and Ubuntu, apt-get install krb5-kdc krb5-admin-server krb5-user"


class Kdc:
    """A realm.

    Attributes:
        krb5_conf: The settings of its clients.
        port: Where its KDC listens.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.krb5_conf = folder / "krb5.conf"
        self.krb5_conf.write_text(_CLIENTS.format(realm=REALM, port=self.port))
        (folder / "kdc.conf").write_text(_SERVER.format(realm=REALM, port=self.port, folder=folder))
        self._environment = {**os.environ, "KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(folder / "kdc.conf")}
        self._process: subprocess.Popen[bytes] | None = None
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-tests")

    def start(self) -> None:
        """Run it, until it answers."""
        with (self._folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [self._program("krb5kdc"), "-n", "-r", REALM], env=self._environment, stdout=output, stderr=output
            )
        wait_until(self._answers)

    def stop(self) -> None:
        """End it; it may be started again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LONGEST_S)
            self._process = None

    def add(self, *principals: str, longest: str = "1h") -> None:
        """Add principals with random keys."""
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey -maxlife {longest} {principal}")

    def export(self, name: str, *principals: str) -> Path:
        """Return a keytab with new keys of principals: older keytabs of theirs are worth nothing any more."""
        keytab = self._folder / name
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {keytab} {principal}")
        return keytab

    def kinit(self, keytab: Path, principal: str, cache: Path, lifetime: str = "1h") -> None:
        """Get a ticket into a cache."""
        self._run("kinit", "-c", str(cache), "-l", lifetime, "-k", "-t", str(keytab), principal)

    def tickets_given(self, principal: str) -> int:
        """Return how many tickets to get tickets with a principal has been given."""
        lines = (self._folder / "kdc.log").read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and f"{principal}@" in line for line in lines)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return True
        except OSError:
            return False

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._program(program), *arguments], env=self._environment, capture_output=True, text=True, timeout=LONGEST_S
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def _program(name: str) -> str:
        return shutil.which(name, path=_SEARCHED) or name


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """Run one."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    kdc = Kdc(folder)
    kdc.start()
    try:
        yield kdc
    finally:
        kdc.stop()
