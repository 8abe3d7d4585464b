"""A certificate that is its own root."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1, and its key: paths of PEM files."""
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "rest.pem", folder / "rest.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=pystate"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(pem), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return str(pem), str(key)
