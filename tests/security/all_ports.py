"""All that the processes of a job listen on, Spark's and PySpark's included, asked by another user who proves nothing."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.faults.processes import command_of, descendants
from tests.security.listening_sockets import ListeningSocket, all_listening_sockets_of
from tests.security.other_user import OtherUser

BLOCKS = ("broadcast_0_piece0", "broadcast_1_piece0", "shuffle_0_0_0")
FILES = ("/files/job.py", "/jars/job.jar")
_FAILURES = (2, 5, 8)
"""Of a chunk, a call and a stream: how Spark says that there is nothing, with a stack trace."""
_CHALLENGE = b"#CHALLENGE#"
_ERRORS_OF_PY4J = (b"!x", b"!z")
_LOOPBACK = "127.0.0.1"


def sockets_below(ancestor: int, *, itself: bool = True) -> list[ListeningSocket]:
    """Return all that those below a process listen on, and the process itself."""
    return [
        found
        for pid in [*([ancestor] if itself else []), *descendants(ancestor)]
        for found in all_listening_sockets_of(f"{command_of(pid)[:100]} ({pid})", pid)
    ]


def given_away(
    sockets: list[ListeningSocket], other_user: OtherUser, is_nothing: Callable[[bytes], bool] | None = None
) -> list[str]:
    """Return what another user gets of some sockets, and where other machines reach one; empty where all is well.

    Args:
        sockets: Which.
        other_user: Who asks.
        is_nothing: Whether an answer gives nothing away; None where only refusals do.
    """
    is_nothing = is_nothing or is_refusal
    found = [f"{one.name} listens on {one.address}" for one in sockets if one.address[0] not in ("/", _LOOPBACK)]
    paths = {str(one.address): one.name for one in sockets if isinstance(one.address, str)}
    found += [f"{paths[path]} lets him into {path}" for path in other_user.act("can_connect", paths=sorted(paths))]
    ports = {int(one.address[1]): one.name for one in sockets if not isinstance(one.address, str)}
    answers = other_user.act("knock", ports=sorted(ports), blocks=BLOCKS, files=FILES)
    for port, of_port in answers.items():
        for asked, answer in of_port.items():
            if not is_nothing(bytes.fromhex(answer)):
                found.append(f"{ports[int(port)]} at port {port}, asked for {asked}: {bytes.fromhex(answer)[:60]!r}")
    return found


def is_refusal(answer: bytes) -> bool:
    """Whether an answer says no, or asks for a proof: nothing else is one."""
    if not answer:
        return True
    if answer[4:].startswith(_CHALLENGE) or answer.startswith(_ERRORS_OF_PY4J):
        return True
    return len(answer) > 8 and struct.unpack(">q", answer[:8])[0] >= len(answer) > 8 and answer[8] in _FAILURES
