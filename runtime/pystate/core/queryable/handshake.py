"""The handshake by which client and proxy prove to each other that they know a token, without sending it.

    proxy   {"pystate": "queryable-state", "version", "nonce"}
    client  {"version", "nonce", "proof"}                        proof of "client", over both nonces
    proxy   {"outcome", "message", "proof"}                      proof of "proxy", over both nonces

A proof is HMAC-SHA256 with the token as key. A process that listens on the port of a former proxy only learns from it
whether a guessed token is right.

Keys for slots are sent to clients combined with a proof that only the two of them can compute, different each time.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from typing import Any

from pystate.core.queryable.kv_state_messages import PROTOCOL_VERSION, QueryOutcome

MAX_HANDSHAKE_BYTES = 1 << 10
"""A larger frame isn't read before the proof."""

_PROTOCOL = "queryable-state"
_NONCE_BYTES = 32
_CLIENT, _PROXY, _KEY = b"client", b"proxy", b"key"


class HandshakeError(Exception):
    """The peer isn't authenticated, or speaks another protocol.

    Args:
        outcome: The outcome that is sent or was received.
        message: The outcome in words.
    """

    def __init__(self, outcome: QueryOutcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message


def _proof(token: str, role: bytes, proxy_nonce: bytes, client_nonce: bytes) -> bytes:
    said = b"\0".join((_PROTOCOL.encode(), str(PROTOCOL_VERSION).encode(), role, proxy_nonce, client_nonce))
    return hmac.digest(token.encode(), said, "sha256")


def _hidden(data: bytes, token: str, salt: bytes, proxy_nonce: bytes, client_nonce: bytes) -> bytes:
    """Encrypt a key for those who know the token; applied again, it decrypts."""
    pad = _proof(token, _KEY + salt, proxy_nonce, client_nonce)
    if len(data) != len(pad):
        text = "what is hidden is a key"
        raise ValueError(text)
    return bytes(one ^ other for one, other in zip(data, pad, strict=True))


def _nonce(message: dict[str, Any]) -> bytes:
    nonce = message.get("nonce")
    if type(nonce) is not bytes or len(nonce) != _NONCE_BYTES:
        text = "This is no greeting of queryable state."
        raise HandshakeError(QueryOutcome.BAD_REQUEST, text)
    return nonce


def _check_version(message: dict[str, Any]) -> None:
    version = message.get("version")
    if type(version) is not int or version != PROTOCOL_VERSION:
        text = f"This side speaks version {PROTOCOL_VERSION} of queryable state, the other one {str(version)[:20]!r}."
        raise HandshakeError(QueryOutcome.BAD_REQUEST, text)


class ProxyHandshake:
    """The proxy's side.

    Args:
        tokens: The accepted tokens.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = tuple(tokens)
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._client_nonce = b""
        self._proven: str | None = None

    def greeting(self) -> dict[str, Any]:
        """Return the greeting."""
        return {"pystate": _PROTOCOL, "version": PROTOCOL_VERSION, "nonce": self._nonce}

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a client that has proven a token.

        Raises:
            HandshakeError: It hasn't proven one.
        """
        _check_version(message)
        nonce, proof = _nonce(message), message.get("proof")
        if type(proof) is not bytes:
            text = "This is no greeting of queryable state."
            raise HandshakeError(QueryOutcome.BAD_REQUEST, text)
        # all are compared, so that the time it takes says nothing
        proven = [token for token in self._tokens if hmac.compare_digest(proof, _proof(token, _CLIENT, self._nonce, nonce))]
        if not proven:
            text = "The client doesn't prove a token that this job's proxy knows."
            raise HandshakeError(QueryOutcome.FORBIDDEN, text)
        self._proven, self._client_nonce = proven[0], nonce
        answer = _proof(proven[0], _PROXY, self._nonce, nonce)
        return {"outcome": QueryOutcome.OK.value, "message": "", "proof": answer}

    def hidden(self, key: bytes) -> dict[str, bytes]:
        """Return a key of 32 bytes encrypted for the authenticated client, differently each time."""
        assert self._proven is not None  # noqa: S101 - nothing is answered before
        salt = secrets.token_bytes(_NONCE_BYTES)
        return {"salt": salt, "key": _hidden(key, self._proven, salt, self._nonce, self._client_nonce)}


class ClientHandshake:
    """The client's side.

    Args:
        token: The token to prove.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._proxy_nonce = b""

    def proof(self, greeting: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a proxy's greeting.

        Raises:
            HandshakeError: It is none.
        """
        if greeting.get("pystate") != _PROTOCOL:
            text = "Who listens there is no proxy of queryable state."
            raise HandshakeError(QueryOutcome.BAD_REQUEST, text)
        _check_version(greeting)
        self._proxy_nonce = _nonce(greeting)
        proof = _proof(self._token, _CLIENT, self._proxy_nonce, self._nonce)
        return {"version": PROTOCOL_VERSION, "nonce": self._nonce, "proof": proof}

    def check(self, answer: dict[str, Any]) -> None:
        """Check the proxy's answer.

        Raises:
            HandshakeError: It refuses us, or doesn't know the token either.
        """
        if answer.get("outcome") != QueryOutcome.OK.value:
            known = {one.value: one for one in QueryOutcome}
            raise HandshakeError(known.get(str(answer.get("outcome")), QueryOutcome.BAD_REQUEST), str(answer.get("message")))
        proof = answer.get("proof")
        expected = _proof(self._token, _PROXY, self._proxy_nonce, self._nonce)
        if type(proof) is not bytes or not hmac.compare_digest(proof, expected):
            text = "Who listens there doesn't know the token, so that it is no proxy of this installation."
            raise HandshakeError(QueryOutcome.FORBIDDEN, text)

    def shown(self, hidden: dict[str, Any]) -> bytes:
        """Return a key that the proxy has encrypted.

        Raises:
            ValueError, TypeError, LookupError: It is none.
        """
        return _hidden(hidden["key"], self._token, hidden["salt"], self._proxy_nonce, self._nonce)
