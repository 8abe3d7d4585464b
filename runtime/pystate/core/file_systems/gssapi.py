"""GSSAPI for clients: MIT's own library, called through ctypes.

PyPI's packages for it have no wheels for Linux and need a compiler and Kerberos' headers; the library is where kinit is.
Names and values after RFC 2744, layouts after MIT's gssapi.h. Each call gives back what it has taken.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

LIBRARY = "libgssapi_krb5.so.2"
"""The library's name on Linux, in Debian's libgssapi-krb5-2 and in Red Hat's krb5-libs."""

_KERBEROS = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"  # 1.2.840.113554.1.2.2
_SPNEGO = b"\x2b\x06\x01\x05\x05\x02"  # 1.3.6.1.5.5.2
_HOST_BASED_SERVICE = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04"  # 1.2.840.113554.1.2.1.4
_KERBEROS_PRINCIPAL = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01"  # 1.2.840.113554.1.2.2.1
_INITIATE = 1
_BY_CALLING, _BY_MECHANISM = 1, 2
_ERRORS = 0xFFFF0000
"""The bits of a status that say that a call has failed; the others are remarks."""


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_void_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Element(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _CredentialStore(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Element)))


_STATUS = POINTER(c_uint32)
_HANDLE = POINTER(c_void_p)
_OID = POINTER(_Oid)
_BUFFER = POINTER(_Buffer)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "gss_import_name": (_STATUS, _BUFFER, _OID, _HANDLE),
    "gss_acquire_cred_from": (
        *(_STATUS, c_void_p, c_uint32, POINTER(_OidSet), c_int),
        *(POINTER(_CredentialStore), _HANDLE, c_void_p, _STATUS),
    ),
    "gss_inquire_cred": (_STATUS, c_void_p, _HANDLE, _STATUS, c_void_p, c_void_p),
    "gss_display_name": (_STATUS, c_void_p, _BUFFER, c_void_p),
    "gss_init_sec_context": (
        *(_STATUS, c_void_p, _HANDLE, c_void_p, _OID, c_uint32, c_uint32),
        *(c_void_p, _BUFFER, c_void_p, _BUFFER, c_void_p, c_void_p),
    ),
    "gss_display_status": (_STATUS, c_uint32, c_int, _OID, _STATUS, _BUFFER),
    "gss_delete_sec_context": (_STATUS, _HANDLE, _BUFFER),
    "gss_release_cred": (_STATUS, _HANDLE),
    "gss_release_name": (_STATUS, _HANDLE),
    "gss_release_buffer": (_STATUS, _BUFFER),
}


class GssError(Exception):
    """A call has failed.

    Args:
        major: GSSAPI's status.
        minor: Kerberos' own, as a signed number, as in its headers.
        message: What the library says of them.
    """

    def __init__(self, major: int, minor: int, message: str) -> None:
        super().__init__(message)
        self.major = major
        self.minor = minor


@dataclass(frozen=True)
class Login:
    """Who one is.

    Attributes:
        name: The principal, with its realm.
        seconds: How long its ticket is good for.
    """

    name: str
    seconds: int


@lru_cache(maxsize=1)
def load() -> Any:
    """Load the library.

    Raises:
        OSError: It isn't there, or is too old for credential stores (before 1.11).
    """
    library = ctypes.CDLL(LIBRARY)
    for name, arguments in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            message = f"{LIBRARY} has no {name}"
            raise OSError(message) from error
        function.argtypes = arguments
        function.restype = c_uint32
    return library


@contextmanager
def credentials(principal: str | None, store: Mapping[str, str]) -> Iterator[c_void_p]:
    """Get the credentials for proving who one is.

    Args:
        principal: Whose; None for the first that is there.
        store: Where they are: `ccache`, `client_keytab`; empty for where the library looks by itself.

    Raises:
        GssError: There are none, or the KDC gives none.
    """
    pairs = [_Element(key.encode(), os.fsencode(value)) for key, value in store.items()]
    elements = (_Element * len(pairs))(*pairs)
    places = _CredentialStore(len(store), elements) if store else None
    with _name(principal, _KERBEROS_PRINCIPAL) as name:
        # SPNEGO alone would not say why there are none
        with _acquired(_KERBEROS, name, places), _acquired(_SPNEGO, name, places) as found:
            yield found


@contextmanager
def _acquired(mechanism: bytes, name: c_void_p | None, places: _CredentialStore | None) -> Iterator[c_void_p]:
    oid, found = _oid(mechanism), c_void_p()
    wanted = byref(_OidSet(1, ctypes.pointer(oid)))
    store = None if places is None else byref(places)
    _call("gss_acquire_cred_from", name, 0, wanted, _INITIATE, store, byref(found), None, None, mechanism=mechanism)
    try:
        yield found
    finally:
        load().gss_release_cred(byref(c_uint32()), byref(found))


def login_of(credential: c_void_p) -> Login:
    """Return whose credentials they are.

    Raises:
        GssError: The library can't tell.
    """
    library = load()
    name, seconds, text = c_void_p(), c_uint32(), _Buffer()
    _call("gss_inquire_cred", credential, byref(name), byref(seconds), None, None)
    try:
        _call("gss_display_name", name, byref(text), None)
        return Login(_taken(text).decode("utf-8", "replace"), seconds.value)
    finally:
        library.gss_release_name(byref(c_uint32()), byref(name))


def first_token(credential: c_void_p, service: str) -> bytes:
    """Return the token that proves who one is to a service.

    Args:
        credential: What `credentials` gives.
        service: `HTTP@host`.

    Raises:
        GssError: The KDC gives no ticket for it.
    """
    library = load()
    context, token, spnego = c_void_p(), _Buffer(), _oid(_SPNEGO)
    try:
        with _name(service, _HOST_BASED_SERVICE) as name:
            arguments = (credential, byref(context), name, byref(spnego), 0, 0, None, None, None, byref(token), None, None)
            _call("gss_init_sec_context", *arguments)
        return _taken(token)
    finally:
        library.gss_release_buffer(byref(c_uint32()), byref(token))
        library.gss_delete_sec_context(byref(c_uint32()), byref(context), None)


@contextmanager
def _name(text: str | None, kind: bytes) -> Iterator[c_void_p | None]:
    if text is None:
        yield None
        return
    data = text.encode()
    found, oid = c_void_p(), _oid(kind)
    buffer = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    _call("gss_import_name", byref(buffer), byref(oid), byref(found))
    try:
        yield found
    finally:
        load().gss_release_name(byref(c_uint32()), byref(found))


def _oid(elements: bytes) -> _Oid:
    oid = _Oid(len(elements), ctypes.cast(c_char_p(elements), c_void_p))
    oid.kept = elements
    return oid


def _taken(buffer: _Buffer) -> bytes:
    """Return a copy of the bytes in a buffer of the library, and give it back."""
    data = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
    load().gss_release_buffer(byref(c_uint32()), byref(buffer))
    return data


def _call(function: str, *arguments: Any, mechanism: bytes = _SPNEGO) -> None:
    minor = c_uint32()
    major = getattr(load(), function)(byref(minor), *arguments)
    if major & _ERRORS:
        texts = [*_texts(minor.value, _BY_MECHANISM, mechanism), *_texts(major, _BY_CALLING, mechanism)]
        raise GssError(major, c_int(minor.value).value, texts[0] if texts else f"{function}: {major:#x}, {minor.value:#x}")


def _texts(status: int, kind: int, mechanism: bytes) -> list[str]:
    """Return what the library says of a status."""
    if not status:
        return []
    found: list[str] = []
    library, more, oid = load(), c_uint32(), _oid(mechanism)
    while True:
        text = _Buffer()
        if library.gss_display_status(byref(c_uint32()), status, kind, byref(oid), byref(more), byref(text)) & _ERRORS:
            return found
        found.append(_taken(text).decode("utf-8", "replace"))
        if not more.value:
            return [one for one in found if one]
