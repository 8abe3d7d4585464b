"""Requests and handshakes made up by the thousand."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from pystate.common.processes.control import connect, receive_message, send_message
from tests.security.campaign_context import CampaignContext, attack
from tests.security.generator import HandshakeGenerator, RequestGenerator
from tests.security.listening_sockets import ListeningSocket
from tests.security.relay import Relay
from tests.security.report import Finding

_AT_ONCE = 32
_ANSWER_S = 30.0
_TO_REST, _TO_DOORS = 0.6, 0.4
_WELCOME = b"#WELCOME#"


async def _crowd(number: int, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Act a number of times, some at once."""
    left = iter(range(number))

    async def one_after_another() -> None:
        for _ in left:
            await act()

    await asyncio.gather(*(one_after_another() for _ in range(_AT_ONCE)))


@attack("generated-requests")
def generated_requests(context: CampaignContext, finding: Finding) -> None:
    """Generated requests to the job manager, without a token."""
    target, number = context.target, int(context.requests * _TO_REST)
    document = target.request("GET", "/pystate/openapi.json", token=False)[1]
    vertices = [vertex["id"] for vertex in target.request("GET", f"/jobs/{target.job_id}")[1].get("vertices", [])]
    known = {"job_id": target.job_id, "taskmanager_id": target.job_id, "vertex_id": (vertices or ["a" * 32])[0]}
    known["log_name"] = "jobmanager.log"
    generator = RequestGenerator(context.chance, document, known)
    statuses: Counter[str] = Counter()
    wrong: dict[str, bytes] = {}
    port = target.port

    async def ask() -> None:
        made = generator.request()
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), _ANSWER_S)
        except (OSError, asyncio.TimeoutError) as error:
            statuses[type(error).__name__] += 1
            return
        answer = b""
        try:
            writer.write(made.data)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            if made.is_whole:
                with contextlib.suppress(ConnectionError):
                    answer = await asyncio.wait_for(reader.read(1 << 20), _ANSWER_S)
            else:
                with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
                    answer = await asyncio.wait_for(reader.read(4096), 0.02)
        except asyncio.TimeoutError:
            statuses["no answer"] += 1
            wrong.setdefault("no answer", made.data)
        finally:
            writer.close()
        status = (
            answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.") else "closed" if made.is_whole else "cut off"
        )
        statuses[status] += 1
        if status.startswith("5") and status != "503":
            wrong.setdefault(status, made.data)
        if made.needs_token and status not in ("401", "403", "503", "400", "413", "414", "431", "closed"):
            wrong.setdefault(f"{status} where a token is needed", made.data)

    began = time.monotonic()
    asyncio.run(_crowd(number, ask))
    seconds = time.monotonic() - began
    finding.did(f"{number:,} requests")
    finding.figure(
        f"{number / seconds:.0f} a second; " + ", ".join(f"{name} {count:,}" for name, count in statuses.most_common())
    )
    for what, data in wrong.items():
        finding.broken(f"{what}: {data[:200]!r}")
    finding.unless(statuses["401"] + statuses["404"] + statuses["400"], "no request came through")


@attack("generated-handshakes")
def generated_handshakes(context: CampaignContext, finding: Finding) -> None:
    """Generated and replayed handshakes with driver and slots."""
    target = context.target
    listeners = target.listeners()
    finding.unless(len(listeners) > 1, f"only {len(listeners)} sockets of driver and slots were found")
    number = int(context.requests * _TO_DOORS) // max(1, len(listeners))
    recorded = _recorded(context, listeners, finding)
    heard: Counter[str] = Counter()
    let_in: list[str] = []

    def talks_to(listener: ListeningSocket) -> Callable[[], Coroutine[Any, Any, None]]:
        generator = HandshakeGenerator(context.chance, recorded)

        async def talk() -> None:
            is_path = isinstance(listener.address, str)
            opening = (
                asyncio.open_unix_connection(listener.address) if is_path else asyncio.open_connection(*listener.address)
            )
            try:
                reader, writer = await asyncio.wait_for(opening, _ANSWER_S)
            except (OSError, asyncio.TimeoutError) as error:
                heard[type(error).__name__] += 1
                return
            told = b""
            try:
                challenge = await asyncio.wait_for(reader.read(4096), _ANSWER_S)
                said = generator.says(challenge)
                writer.write(said)
                with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
                    told = await asyncio.wait_for(reader.read(4096), 0.05 if len(said) < 40 else 0.3)
            except asyncio.TimeoutError:
                heard["no challenge"] += 1
            except ConnectionError:
                heard["reset"] += 1
            finally:
                writer.close()
            heard["refused" if b"#FAILURE#" in told else "closed" if not told else "something else"] += 1
            if _WELCOME in told or (told and b"#FAILURE#" not in told):
                let_in.append(f"{listener.name} answered {told[:60]!r} to {said[:60]!r}")

        return talk

    began = time.monotonic()
    for listener in listeners:
        asyncio.run(_crowd(number, talks_to(listener)))
    seconds = time.monotonic() - began
    made = number * len(listeners)
    finding.did(f"{made:,} handshakes with {len(listeners)} sockets of driver and slots, a recorded one replayed among them")
    finding.figure(
        f"{made / seconds:.0f} a second; " + ", ".join(f"{name} {count:,}" for name, count in heard.most_common())
    )
    finding.unless(not let_in, f"{len(let_in)} were answered, first {let_in[:1]}")


def _recorded(context: CampaignContext, listeners: list[ListeningSocket], finding: Finding) -> bytes:
    """Return what the job manager says to a driver, proof and request."""
    target = context.target
    secret = target.home.job(target.job_id).secret.read_bytes()
    for listener in listeners:
        if listener.name != "driver" or isinstance(listener.address, str):
            continue
        with Relay(listener.address) as relay, contextlib.suppress(Exception):
            with connect(relay.address, secret, timeout=10) as connection:
                send_message(connection, {"op": "status"})
                receive_message(connection)
            return relay.said
    finding.broken("no handshake of the job manager's could be recorded")
    return b""
