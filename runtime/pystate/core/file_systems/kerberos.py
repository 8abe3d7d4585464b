"""Kerberos over HTTP (RFC 4559): a log-in by keytab or by kinit's ticket, and the header that proves it."""

from __future__ import annotations

import base64
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_void_p
from typing import NoReturn
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from pystate.common.configuration.file_system_settings import KerberosSettings
from pystate.common.configuration.groups.file_system_options import KerberosOptions
from pystate.common.errors import StorageError
from pystate.core.file_systems import gssapi
from pystate.core.file_systems.gssapi import GssError, Login

_EXPIRED = 11 << 16
"""GSS_S_CREDENTIALS_EXPIRED."""

_COOKIE = re.compile(r'hadoop\.auth="?[^;"\s]')
"""With a value: servers that refuse send an empty one."""

_LOCK_S = 120.0
"""How long one waits for another thread's log-in; MIT gives up a silent KDC after some 25 seconds."""

_NO_KDC = "look whether this machine reaches the KDC that krb5.conf names; KRB5_CONFIG is the path of another krb5.conf"
# the library's texts are English: no process of ours sets LC_MESSAGES
_HINTS = {
    "Cannot contact any KDC": _NO_KDC,
    "Cannot find KDC": _NO_KDC,
    "Configuration file does not specify default realm": _NO_KDC,
    "lock skew too great": "set the clocks: those of this machine, the KDC and HDFS may differ by five minutes at most",
    "Ticket expired": f"kinit; {KerberosOptions.KEYTAB.key} lets jobs get new tickets by themselves",
    "Server HTTP/": "name the servers as the KDC does (HTTP/HOST@REALM): pystate.hdfs.webhdfs-address, krb5.conf",
    "Client '": f"set {KerberosOptions.PRINCIPAL.key} to one that the KDC has; klist -k KEYTAB shows whose keys it has",
    "integrity check failed": "the KDC has a newer key than the keytab: have its administrator export it again",
    "Preauthentication failed": "the KDC has a newer key than the keytab: have its administrator export it again",
}


class KerberosLogin:
    """Who this process is for Kerberos. Thread-safe.

    A keytab's tickets are in the memory of this process, and the library gets a new one before the last has ended.

    Args:
        settings: By which keytab or ticket.
    """

    def __init__(self, settings: KerberosSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._where = "the ticket cache of kinit"
        self._store: dict[str, str] = {}
        if settings.keytab is not None:
            self._where = f"{KerberosOptions.KEYTAB.key} = {settings.keytab}"
            self._store = {"client_keytab": settings.keytab, "ccache": f"MEMORY:pystate-{secrets.token_hex(8)}"}

    @property
    def by(self) -> str:
        """What it logs in by, for people."""
        return self._where

    def check(self) -> None:
        """Check what doesn't need the KDC.

        Raises:
            StorageError: There is nothing to log in by, the keytab can't be read, or the library isn't there.
        """
        self.check_keytab()
        if self._settings.keytab is None and not self._settings.use_ticket_cache:
            message = (
                f"HDFS asks for Kerberos, but {KerberosOptions.KEYTAB.key} is not set and"
                f" {KerberosOptions.USE_TICKET_CACHE.key} is false."
            )
            raise StorageError(message, hint=f"set {KerberosOptions.KEYTAB.key} and {KerberosOptions.PRINCIPAL.key}")
        try:
            gssapi.load()
        except OSError as error:
            message = f"HDFS asks for Kerberos, whose library can't be loaded: {error}."
            hint = "apt-get install libgssapi-krb5-2, dnf install krb5-libs, or apk add krb5-libs"
            raise StorageError(message, hint=hint) from error

    def check_keytab(self) -> None:
        """Check that the keytab can be read.

        Raises:
            StorageError: It can't.
        """
        if self._settings.keytab is None:
            return
        try:
            with open(self._settings.keytab, "rb") as file:
                is_keytab = file.read(1) == b"\x05"
        except OSError as error:
            message = f"The keytab can't be read: {error.strerror}."
            hint = "each machine of the job needs it at this path, readable for who runs the job"
            raise StorageError(message, where=self._where, hint=hint) from error
        if not is_keytab:
            message = "The file is no keytab."
            raise StorageError(message, where=self._where, hint="have the KDC's administrator export one: kadmin, ktadd")

    def login(self) -> Login:
        """Return who it is, and how long its ticket is good for.

        Raises:
            StorageError: Nobody, and why.
        """
        with self._credentials() as credential:
            return gssapi.login_of(credential)

    def token(self, host: str) -> bytes:
        """Return what proves to the web server of a host who it is.

        Raises:
            StorageError: It can't be proven, and why.
        """
        with self._credentials() as credential:
            return gssapi.first_token(credential, f"HTTP@{host}")

    def refuse(self, server: str, reason: str) -> NoReturn:
        """Raise that a server doesn't accept the ticket."""
        message = f"{server} refuses the Kerberos log-in: {reason}."
        raise StorageError(message, where=self._where, hint=_hint_of(reason) or "klist, and the log of that server")

    @contextmanager
    def _credentials(self) -> Iterator[c_void_p]:
        self.check()
        # two threads would get two tickets, into one cache
        if not self._lock.acquire(timeout=_LOCK_S):
            message = f"Another thread has waited for Kerberos for more than {_LOCK_S:.0f} seconds."
            raise StorageError(message, where=self._where, hint=_NO_KDC)
        try:
            with gssapi.credentials(self._settings.principal, self._store) as found:
                yield found
        except GssError as error:
            raise self._for_people(error) from error
        finally:
            self._lock.release()

    def _for_people(self, error: GssError) -> StorageError:
        text = "Ticket expired" if error.major == _EXPIRED else str(error)  # which that status comes without
        hint = _hint_of(text)
        if hint is None and self._settings.keytab is None:
            hint = f"kinit, or set {KerberosOptions.KEYTAB.key} and {KerberosOptions.PRINCIPAL.key}"
        elif hint is None:
            text = f"no log-in as {self._settings.principal}: {text}"
            hint = f"klist -k {self._settings.keytab} shows whose keys it has; {KerberosOptions.PRINCIPAL.key} is to be one"
        return StorageError(f"Kerberos: {text}.", where=self._where, hint=hint)


class NegotiateAuth(AuthBase):
    """Adds the proof to requests of one session, where neither a cookie nor a token of the server's stands for it.

    Args:
        login: Who one is.
        required: Whether servers ask for it; they may also say so later.
    """

    def __init__(self, login: KerberosLogin, *, required: bool) -> None:
        self._login = login
        self.required = required

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add it."""
        url = urlsplit(request.url or "")
        known = _COOKIE.search(str(request.headers.get("Cookie", ""))) or "delegation=" in url.query
        if self.required and not known and url.hostname:
            token = base64.b64encode(self._login.token(url.hostname)).decode()
            request.headers["Authorization"] = f"Negotiate {token}"
        return request


def asks_for_proof(answer: requests.Response) -> bool:
    """Whether a server wants a proof, and has not been given one."""
    offered = answer.headers.get("WWW-Authenticate", "")
    return answer.status_code == 401 and "negotiate" in offered.lower() and "Authorization" not in answer.request.headers


def _hint_of(text: str) -> str | None:
    return next((hint for part, hint in _HINTS.items() if part in text), None)
