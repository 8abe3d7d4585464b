"""Proofs by which a program and a job manager show each other that they know a token, without sending it.

A proof is HMAC-SHA256 with the token as key, over what it is for and the text that it vouches for. Who listens in only
learns from it whether a guessed token is right.
"""

from __future__ import annotations

import hmac
import secrets

from pystate.common.processes.internal_certificate import pem_from_seed
from pystate.common.processes.tls_session import secret_with

REGISTRATION_PROTOCOL = 1
"""The version of what programs and the job managers that they register with say to each other. A change that the other side
can't do without raises it; one more entry doesn't."""
SCHEME = "PystateProof"
"""The scheme of the header `Authorization` of a request that proves the token instead of showing it."""

HELLO, PROGRAM, JOB_MANAGER = "hello", "program", "job manager"
"""What proofs are for, so that none serves in the place of another."""
_SECRET, _CERTIFICATE = "secret of the control endpoint", "certificate of the control endpoint"


def new_nonce() -> str:
    """Return 32 fresh random bytes as hex."""
    return secrets.token_hex(32)


def proof_of(token: str, purpose: str, text: str) -> str:
    """Return the proof that the author of a text knows the token."""
    return hmac.digest(token.encode(), f"{purpose}\0{text}".encode(), "sha256").hex()


def is_proof(proof: str, token: str, purpose: str, text: str) -> bool:
    """Whether a proof is that of the token."""
    return hmac.compare_digest(proof.encode(), proof_of(token, purpose, text).encode())


def hello_header(token: str) -> str:
    """Return the header `Authorization` of a request that proves the token."""
    nonce = new_nonce()
    return f"{SCHEME} {nonce}.{proof_of(token, HELLO, nonce)}"


def is_hello(header: str, token: str) -> bool:
    """Whether a header proves the token. It may be another's that is sent again, so it is good for little."""
    scheme, _, given = header.partition(" ")
    nonce, _, proof = given.strip().partition(".")
    return scheme.lower() == SCHEME.lower() and len(nonce) == len(new_nonce()) and is_proof(proof, token, HELLO, nonce)


def control_secret(token: str, job_id: str, nonce: str, *, encrypted: bool) -> bytes:
    """Return the secret of a job's control endpoint, which its job manager computes as well: it is never sent.

    Args:
        token: What both know.
        job_id: The job.
        nonce: What the program has chosen for this job.
        encrypted: Whether connections are encrypted. The certificate is computed, too.

    Raises:
        ConfigurationError: The library that makes certificates is missing.
    """
    text = f"{job_id}\0{nonce}"
    secret = proof_of(token, _SECRET, text).encode()
    return secret_with(secret, pem_from_seed(bytes.fromhex(proof_of(token, _CERTIFICATE, text)))) if encrypted else secret
