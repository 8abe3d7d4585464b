"""What was heard of one connection to a proxy of queryable state proves nothing on another."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.core.queryable.handshake import ClientHandshake, HandshakeError, ProxyHandshake
from pystate.core.queryable.kv_state_messages import QueryOutcome

TOKEN, KEY = "t" * 64, b"k" * 32


def connected() -> tuple[ProxyHandshake, ClientHandshake, dict[str, Any], dict[str, Any]]:
    """Return both sides of a connection, and what each has said as its proof."""
    proxy, client = ProxyHandshake([TOKEN]), ClientHandshake(TOKEN)
    said = client.proof(proxy.greeting())
    answer = proxy.answer(said)
    client.check(answer)
    return proxy, client, said, answer


def test_a_proof_is_good_for_the_connection_it_was_made_for() -> None:
    _, _, said, answer = connected()
    for proof in (said["proof"], answer["proof"], b"", b"\0" * 32):
        with pytest.raises(HandshakeError) as raised:
            ProxyHandshake([TOKEN]).answer({**said, "proof": proof})
        assert raised.value.outcome is QueryOutcome.FORBIDDEN


def test_who_sends_a_clients_own_proof_back_is_no_proxy() -> None:
    client = ClientHandshake(TOKEN)
    said = client.proof(ProxyHandshake([TOKEN]).greeting())
    _, _, _, of_another = connected()
    for proof in (said["proof"], of_another["proof"], None):
        with pytest.raises(HandshakeError, match="doesn't know the token"):
            client.check({"outcome": "OK", "proof": proof})


def test_a_key_that_was_told_on_one_connection_is_another_one_on_the_next() -> None:
    proxy, client, _, _ = connected()
    hidden = proxy.hidden(KEY)
    assert client.shown(hidden) == KEY
    assert hidden["key"] != proxy.hidden(KEY)["key"], "never hidden twice in the same way"
    _, other, _, _ = connected()
    assert other.shown(hidden) != KEY
