"""Somebody between two peers who notes what the caller says."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.security.listening_sockets import opened


class Relay:
    """Passes one connection on.

    Attributes:
        address: Where it listens.
        said: What the caller has said.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = ("127.0.0.1", int(self._server.getsockname()[1]))
        self.said = b""

    def __enter__(self) -> Relay:
        threading.Thread(target=self._pass_on, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _pass_on(self) -> None:
        with contextlib.suppress(OSError):
            caller, _ = self._server.accept()
            with caller, opened(self._target) as called:
                back = threading.Thread(target=self._copy, args=(called, caller), daemon=True)
                back.start()
                while data := caller.recv(1 << 16):
                    self.said += data
                    called.sendall(data)
                called.shutdown(socket.SHUT_WR)
                back.join()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
