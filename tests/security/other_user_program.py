"""What the second user does: a program without any module of ours, run with another user id.

`python -I other_user_program.py NAME ARGUMENTS-AS-JSON` prints its finding as JSON.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import os
import socket
import stat
import struct
import sys
import time


def can_read(paths: list[str]) -> list[str]:
    """Return which of these files can be read."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            file.read(1)
            found.append(path)
    return found


def readable_below(roots: list[str], owner: int, since: float, needles: list[str]) -> dict[str, list[str]]:
    """Return the readable files of an owner below folders, and those of them that hold one of some words."""
    files, telling = [], []
    wanted = [needle.encode() for needle in needles]
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    facts = os.lstat(path)
                    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != owner or facts.st_mtime < since:
                        continue
                    with open(path, "rb") as file:
                        data = file.read(32 << 20)
                    files.append(path)
                    if any(needle in data for needle in wanted):
                        telling.append(path)
    return {"files": files, "telling": telling}


def writable_below(roots: list[str]) -> list[str]:
    """Return files and folders below folders that can be written to."""
    found = []
    for root in roots:
        for folder, _, names in os.walk(root):
            found += [path for path in [folder, *(os.path.join(folder, name) for name in names)] if os.access(path, os.W_OK)]
    return found


def shown_by_processes(needles: list[str]) -> list[str]:
    """Return where in /proc one of some words can be read, as '<pid> <file>'."""
    found = []
    wanted = [needle.encode() for needle in needles]
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            for file in ("cmdline", "environ"):
                with contextlib.suppress(OSError), open(f"/proc/{name}/{file}", "rb") as opened:
                    data = opened.read()
                    if any(needle in data for needle in wanted):
                        found.append(f"{name} {file}")
    return found


def ask(port: int, requests: list[dict[str, object]]) -> list[tuple[int, str]]:
    """Send requests to a job manager, without a token; return status codes and bodies."""
    answers = []
    for request in requests:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = request.get("body")
        connection.request(str(request["method"]), str(request["path"]), None if body is None else json.dumps(body))
        answer = connection.getresponse()
        answers.append((answer.status, answer.read().decode("utf-8", "replace")))
        connection.close()
    return answers


def make_folder(path: str, mode: int) -> None:
    """Make a folder of his own, open for everybody."""
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)


def can_connect(paths: list[str]) -> list[str]:
    """Return which of these Unix sockets let him in."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as caller:
            caller.connect(path)
            found.append(path)
    return found


def knock(ports: list[int], blocks: list[str], files: list[str]) -> dict[str, dict[str, str]]:
    """Ask each loopback port, in the words of all that Spark listens for; return the answers in hexadecimal.

    Args:
        ports: Whose they are is not known.
        blocks: What Spark's block manager is asked for.
        files: What Spark's RPC is asked for, by their paths there.
    """
    words = {f"block {block}": _open_block(block) for block in blocks}
    words |= {f"file {file}": _frame(6, _text(file)) for file in files}
    words |= {
        "nothing": b"",
        "an object of Java": _rpc(b"\xac\xed\x00\x05t\x00\x01x"),
        "a command to py4j": b"r\nu\njava.lang.System\nrj\ne\n",
        "an update of accumulators": struct.pack(">i", 1),
        "a request": b"GET / HTTP/1.0\r\n\r\n",
    }

    def ask(port: int) -> dict[str, str]:
        return {name: _answer(port, data).hex() for name, data in words.items()}

    with concurrent.futures.ThreadPoolExecutor(max(1, len(ports))) as at_once:
        return dict(zip(map(str, ports), at_once.map(ask, ports), strict=True))


def _answer(port: int, data: bytes) -> bytes:
    """Return what a port says, and where it offers a block the block."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as caller:
        caller.settimeout(1)
        caller.sendall(data)
        while len(answer) < 65536 and (more := caller.recv(65536)):
            answer += more
            if answer[8:9] == b"\x04" and len(answer) >= 34:  # an RpcResponse with a stream, whose first chunk is asked for
                caller.sendall(_frame(0, answer[22:30] + struct.pack(">i", 0)))
    return answer


def _open_block(block: str) -> bytes:
    return _rpc(b"\x00" + _text("app") + _text("driver") + struct.pack(">i", 1) + _text(block))


def _rpc(body: bytes) -> bytes:
    return _frame(3, struct.pack(">qi", 7, len(body)) + body)


def _frame(kind: int, content: bytes) -> bytes:
    return struct.pack(">qb", 9 + len(content), kind) + content


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def pose(seconds: float) -> None:
    """Do nothing; its arguments are what it is about."""
    time.sleep(seconds)


if __name__ == "__main__":
    # what follows the two arguments is there to be seen by others
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
