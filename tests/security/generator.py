"""Requests and handshakes made up at random, from what the job manager says of itself and from nothing."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_VERBS = (
    "GET",
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "G\0T",
    "",
    "GET GET",
    "M" * 300,
)
_ODD_TEXTS = (
    "",
    "\0",
    "..",
    "../../token",
    "%2e%2e%2ftoken",
    "%00",
    "%",
    "%zz",
    "a\r\nSet-Cookie: x",
    "\u202e\U0001f4a3",
    "\ud800",
    "-1",
    "1e309",
    "9" * 40,
    "NaN",
    "null",
    "true",
    "'; DROP TABLE jobs --",
    "{{7*7}}",
    "${jndi:ldap://127.0.0.1:9/x}",
    "/" * 50,
    "x" * 5000,
    "file:///etc/passwd",
    "http://127.0.0.1:9/",
    "jobmanager.log/../token",
)
_ORIGINS = ("http://evil.example", "null", "http://[", "http://localhost:1", "file://", "", "http://127.0.0.1@evil.example")
_HOSTS = (
    "evil.example",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:99999",
    "[::1]",
    "[",
    "0.0.0.0",  # noqa: S104 - a name that is refused
    "2130706433",
    "",
    "a b",
    "127.0.0.1:x",
)
_TYPES = (
    "application/json",
    "text/plain",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "\xff",
    "",
)
_CHANGES_THE_JOB = ("stop", "savepoints", "cancel", "resubmit", "resubmission", "rescal")
_CHALLENGE, _WELCOME = b"#CHALLENGE#", b"#WELCOME#"


@dataclass(frozen=True)
class Generated:
    """One request.

    Attributes:
        data: Its bytes.
        is_whole: Whether an answer is to be waited for.
        needs_token: Whether it names a route that needs one.
    """

    data: bytes
    is_whole: bool
    needs_token: bool = False


class RequestGenerator:
    """Makes requests up.

    Args:
        chance: Decides all.
        document: The job manager's OpenAPI document.
        known: What placeholders of paths may be, by name. A job that is known is only looked at.
    """

    def __init__(self, chance: random.Random, document: Mapping[str, Any], known: Mapping[str, str]) -> None:
        self._chance = chance
        self._known = known
        self._routes = [
            (verb.upper(), path, operation) for path, verbs in document["paths"].items() for verb, operation in verbs.items()
        ]

    def request(self) -> Generated:
        """Return the next one."""
        chance = self._chance
        if chance.random() < 0.1:
            return Generated(self._noise(), is_whole=False)
        verb, path, operation = chance.choice(self._routes)
        owner_only = operation.get("security") == [{"token": []}]
        is_plain = chance.random() < 0.4
        if not is_plain and chance.random() < 0.3:
            verb, owner_only = chance.choice(_VERBS), False
        looks_only = verb in ("GET", "HEAD") and not any(word in path for word in _CHANGES_THE_JOB)
        filled = self._filled(path, looks_only=looks_only, is_plain=is_plain)
        if not is_plain and chance.random() < 0.3:
            filled, owner_only = self._mutated(filled.encode("utf-8", "surrogatepass")).decode("latin-1"), False
        query = self._query(operation) if chance.random() < 0.5 else ""
        body = self._body(operation, is_plain=is_plain) if verb not in ("GET", "HEAD") or chance.random() < 0.1 else b""
        headers = {"Host": "127.0.0.1", "Connection": "close"}
        if body or verb not in ("GET", "HEAD"):
            headers |= {"Content-Length": str(len(body)), "Content-Type": "application/json"}
        is_whole = True
        if not is_plain:
            is_whole, body = self._spoil(headers, body)
        lines = [f"{verb} {filled}{query} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        head = "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n"
        return Generated(head + body, is_whole, owner_only and is_plain)

    def _filled(self, path: str, *, looks_only: bool, is_plain: bool) -> str:
        words = []
        for word in path.split("/"):
            if not word.startswith("{"):
                words.append(word)
                continue
            name, draw = word[1:-1], self._chance.random()
            if looks_only and name in self._known and draw < 0.5:
                words.append(self._known[name])
            elif draw < 0.8 or is_plain:
                words.append("1" if name in ("checkpoint_id", "subtask_index") else f"{self._chance.getrandbits(128):032x}")
            else:
                words.append(self._chance.choice(_ODD_TEXTS).replace("\r\n", "%0d%0a"))
        return "/".join(words)

    def _query(self, operation: Mapping[str, Any]) -> str:
        names = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"] or ["x"]
        pairs = [
            f"{self._chance.choice(names)}={self._chance.choice(_ODD_TEXTS)}" for _ in range(self._chance.randrange(1, 5))
        ]
        return "?" + "&".join(pairs).replace("\r\n", "%0d%0a").replace(" ", "+")

    def _body(self, operation: Mapping[str, Any], *, is_plain: bool) -> bytes:
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        fields = content.get("schema", {}).get("properties", {})
        names = list(fields) or ["x"]
        value: Any = {name: self._value(2) for name in self._chance.sample(names, self._chance.randrange(len(names) + 1))}
        if is_plain:
            return json.dumps(value).encode()
        draw = self._chance.random()
        if draw < 0.1:
            depth = self._chance.choice((10, 1000, 100_000))
            return b"[" * depth if draw < 0.05 else b'{"a":' * depth + b"1" + b"}" * depth
        if draw < 0.2:
            return b"\xff\xfe" + json.dumps(value).encode("utf-16-le")
        if draw < 0.25:
            return json.dumps({"x" * 100_000: ["y" * 1000] * 100}).encode()
        text = json.dumps(value if draw < 0.8 else self._value(3)).encode()
        return self._mutated(text) if draw > 0.5 else text

    def _value(self, depth: int) -> Any:
        chance = self._chance
        kinds = [
            lambda: chance.choice(_ODD_TEXTS),
            lambda: chance.choice((0, -1, 2**63, 10**400, 1.5, float("nan"), float("inf"), True, False, None)),
            lambda: f"{chance.getrandbits(128):032x}",
            lambda: "/" + chance.choice(_ODD_TEXTS),
        ]
        if depth:
            kinds += [
                lambda: [self._value(depth - 1) for _ in range(chance.randrange(5))],
                lambda: {chance.choice(_ODD_TEXTS): self._value(depth - 1) for _ in range(chance.randrange(4))},
            ]
        return chance.choice(kinds)()

    def _spoil(self, headers: dict[str, str], body: bytes) -> tuple[bool, bytes]:
        """Change headers; return whether the request is still whole, and its body."""
        chance = self._chance
        draw = chance.randrange(14)
        if draw == 0:
            headers["Host"] = chance.choice(_HOSTS)
        elif draw == 1:
            headers["Origin"] = chance.choice(_ORIGINS)
        elif draw == 2:
            headers["Authorization"] = chance.choice(
                ("Bearer ", "Bearer x", "Basic eDp4", "Bearer " + "x" * 8000, "bearer \xff")
            )
        elif draw == 3:
            headers["Content-Length"] = chance.choice(("-1", "abc", "99999999999999999999", "1_0", "+5", "0x10"))
            return False, body
        elif draw == 4:
            headers["Content-Length"] = str(len(body) + chance.choice((1, 1000, 1 << 40)))
            return False, body
        elif draw == 5:
            headers.pop("Content-Length", None)
            headers["Transfer-Encoding"] = "chunked"
            return False, b"%x\r\n%b\r\n%b" % (
                len(body),
                body,
                chance.choice((b"0\r\n\r\n", b"", b"zz\r\n", b"-5\r\n", b"f" * 40)),
            )
        elif draw == 6:
            headers["Transfer-Encoding"] = chance.choice(("chunked, gzip", "identity", "xchunked", " chunked"))
            return False, body
        elif draw == 7:
            headers.update(
                {f"X-{number}": "y" * chance.choice((1, 100, 2000)) for number in range(chance.choice((5, 90, 400)))}
            )
            return False, body
        elif draw == 8:
            headers["Expect"] = "100-continue"
        elif draw == 9:
            headers |= {"Upgrade": chance.choice(("websocket", "h2c")), "Connection": "Upgrade", "Sec-WebSocket-Key": "eA=="}
            return False, body
        elif draw == 10:
            headers["Content-Type"] = chance.choice(_TYPES)
        elif draw == 11:
            del headers["Host"]
        elif draw == 12:
            headers["pystate-client"] = chance.choice(_ODD_TEXTS[:4] + ("1",)).replace("\0", "")
        else:
            headers["X-Forwarded-For"] = headers["X-Forwarded-Host"] = chance.choice(_HOSTS)
        return True, body

    def _noise(self) -> bytes:
        chance = self._chance
        return chance.choice(
            (
                lambda: chance.randbytes(chance.randrange(1, 2000)),
                lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(508),
                lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + chance.randbytes(40),
                lambda: b"GET " + b"/" * chance.choice((100, 70_000)),
                lambda: b"\r\n" * 200,
                lambda: b"GET / HTTP/9.9\r\n\r\n",
                lambda: b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n",
                lambda: b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nA: " + chance.randbytes(80) + b"\r\n\r\n",
                lambda: b"GET /jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\n Folded: x\r\n\r\n",
                lambda: b"GET http://evil.example/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                lambda: b"GET /jobs HTTP/1.0\r\n\r\n",
                lambda: b"",
            )
        )()

    def _mutated(self, data: bytes) -> bytes:
        return mutated(self._chance, data)


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Return bytes with some changed, cut out, doubled or put in."""
    result = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        place = chance.randrange(len(result) + 1)
        match chance.randrange(4):
            case 0 if place < len(result):
                result[place] = chance.randrange(256)
            case 1:
                del result[place : place + chance.randrange(1, 9)]
            case 2:
                result[place:place] = result[: chance.randrange(20)]
            case _:
                result[place:place] = chance.randbytes(chance.randrange(1, 6))
    return bytes(result)


class HandshakeGenerator:
    """Makes up what a peer says that does not know the secret.

    Args:
        chance: Decides all.
        recorded: What a peer that knew it has once said; it is said again.
    """

    def __init__(self, chance: random.Random, recorded: bytes = b"") -> None:
        self._chance = chance
        self._recorded = recorded

    def says(self, challenge: bytes) -> bytes:
        """Return what is said to a challenge, a frame as it came."""
        chance, body = self._chance, challenge[4:]
        digest = chance.choice((16, 20, 32, 64))
        return bytes(
            chance.choice(
                (
                    lambda: chance.randbytes(chance.randrange(1, 400)),
                    lambda: frame(chance.randbytes(digest)),
                    lambda: frame(b"{sha256}" + chance.randbytes(digest)),
                    lambda: frame(b"{md5}" + chance.randbytes(16)),
                    lambda: frame(b"{" + chance.randbytes(10) + b"}" + chance.randbytes(32)),
                    lambda: frame(b"{sha256}"),
                    lambda: frame(b"{" + b"sha256" * 20),
                    lambda: frame(_WELCOME),
                    lambda: frame(b"#FAILURE#"),
                    lambda: challenge,
                    lambda: frame(_CHALLENGE + b"{sha256}" + chance.randbytes(20)),
                    lambda: frame(body[len(_CHALLENGE) :]),
                    lambda: frame(b""),
                    lambda: frame(b"") * 50,
                    lambda: struct.pack("!i", 0x7FFFFFFF) + b"x" * chance.choice((0, 1000, 300_000)),
                    lambda: struct.pack("!i", -1) + struct.pack("!Q", 1 << 62),
                    lambda: struct.pack("!i", -1) + struct.pack("!Q", 2**64 - 1),
                    lambda: struct.pack("!i", -2),
                    lambda: struct.pack("!i", 257) + b"x" * 257,
                    lambda: frame(b"x" * 256)[: chance.randrange(1, 260)],
                    lambda: frame(chance.randbytes(32)) + frame(b"\x81\xa2op\xa6cancel"),
                    lambda: frame(b"\x80\x04\x95c\x00posix\nsystem\n"),
                    lambda: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                    lambda: self._recorded or b"\0",
                    lambda: mutated(chance, self._recorded or frame(b"{sha256}" + b"\1" * 32)),
                    lambda: b"",
                )
            )()
        )


def frame(data: bytes) -> bytes:
    """Return a message as it goes over a connection."""
    return struct.pack("!i", len(data)) + data
