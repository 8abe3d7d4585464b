"""The certificate with which the processes of a job encrypt what they send each other, from the options."""

from __future__ import annotations

import datetime
import hashlib
import importlib
import os
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.distribution import pip_install
from pystate.common.errors import ConfigurationError
from pystate.common.files.regular_files import MAX_WORD_BYTES, OddFileError, read_small_file
from pystate.common.processes.control import new_secret
from pystate.common.processes.tls_session import pem_of, secret_with, tls_sessions

_FROM = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
_UNTIL = datetime.datetime(9999, 12, 31, tzinfo=datetime.timezone.utc)
"""When certificates that are made here are valid: as long as their jobs, whatever the clocks of machines say."""


def connection_secret(configuration: Configuration) -> bytes:
    """Return a new secret for the connections of a job, with a certificate if `security.ssl.internal.enabled` is true.

    Raises:
        ConfigurationError: A file is missing or is not what it should be, or the library that makes certificates is missing.
    """
    get, options = configuration.get, SecurityOptions
    if not get(options.SSL_INTERNAL_ENABLED):
        return new_secret()
    certificate, key = get(options.SSL_INTERNAL_CERTIFICATE), get(options.SSL_INTERNAL_KEY)
    if certificate is None and key is None:
        return secret_with(new_secret(), _made_pem())
    if certificate is None or key is None:
        message = "A certificate and its private key belong together, and one of them is not set."
        hint = f"set {options.SSL_INTERNAL_CERTIFICATE.key} and {options.SSL_INTERNAL_KEY.key}, or neither"
        raise ConfigurationError(message, where=options.SSL_INTERNAL_ENABLED.key, hint=hint)
    pem = _read(certificate, options.SSL_INTERNAL_CERTIFICATE.key) + b"\n" + _read(key, options.SSL_INTERNAL_KEY.key)
    secret = secret_with(new_secret(), pem)
    try:
        _try(secret)
    except (OSError, ValueError) as error:
        message = f"The certificate {certificate} with the key {key} can't be used between the processes of a job: {error}."
        hint = "a PEM file each, the key not encrypted; the certificate must be valid for servers and for clients"
        raise ConfigurationError(message, where=options.SSL_INTERNAL_CERTIFICATE.key, hint=hint) from error
    return secret


def _read(path: str, option: str) -> bytes:
    try:
        return read_small_file(path, MAX_WORD_BYTES // 4)
    except (OSError, OddFileError) as error:
        message = f"{path} can't be read: {getattr(error, 'strerror', None) or error}."
        raise ConfigurationError(message, where=option) from error


def _try(secret: bytes) -> None:
    """Let a server and a client with the certificate prove themselves to each other; raises an OSError or ValueError."""
    if not pem_of(secret).startswith(b"-----BEGIN CERTIFICATE-----"):
        message = "the first file holds no certificate"
        raise ValueError(message)
    servers, clients = tls_sessions(secret, server=True), tls_sessions(secret, server=False)
    assert servers is not None and clients is not None  # noqa: S101 - there is a certificate
    server, client = servers(), clients()
    hello, answer, proof = bytearray(), bytearray(), bytearray()
    client.step(b"", hello.extend)
    server.step(hello, answer.extend)
    client.step(answer, proof.extend)
    server.step(proof, answer.extend)


def _made_pem() -> bytes:
    """Return a new self-signed certificate and its key."""
    return pem_from_seed(os.urandom(32))


def pem_from_seed(seed: bytes) -> bytes:
    """Return a self-signed certificate and its key, the same for the same seed.

    Args:
        seed: 32 secret bytes.

    Raises:
        ConfigurationError: The library that makes them is missing.
    """
    try:
        x509: Any = importlib.import_module("cryptography.x509")
        ed25519: Any = importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
        serialization: Any = importlib.import_module("cryptography.hazmat.primitives.serialization")
    except ImportError as error:
        options = SecurityOptions
        message = "Making a certificate for a job needs the package cryptography, which is not installed."
        hint = f"{pip_install('tls')}, or set {options.SSL_INTERNAL_CERTIFICATE.key} and {options.SSL_INTERNAL_KEY.key}"
        raise ConfigurationError(message, where=options.SSL_INTERNAL_ENABLED.key, hint=hint) from error
    key = ed25519.Ed25519PrivateKey.from_private_bytes(seed)  # its signatures are the same each time, too
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "pystate job")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(hashlib.sha256(seed).digest()[:16], "big") | 1)
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .sign(key, None)
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    pem: bytes = made.public_bytes(encoding)
    return pem + bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
