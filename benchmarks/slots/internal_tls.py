"""What `security.ssl.internal.enabled` costs: processor time per MB on a connection between two processes of a job.

    python benchmarks/slots/internal_tls.py [--rounds N]

One thread sends frames over loopback to another one of the same process, which reads them, so that the processor time of
the process is that of both sides. The sides take turns; the best round counts.
"""

import argparse
import threading
import time

from pystate.common.configuration.configuration import Configuration
from pystate.common.processes.control import AuthenticatedListener, connect, receive_message, send_message
from pystate.common.processes.internal_certificate import connection_secret

FRAMES = {"200 B": (200, 20_000), "4 KB": (4 << 10, 20_000), "64 KB": (64 << 10, 3_000), "1 MB": (1 << 20, 200)}
SIDES = {"plain": Configuration(), "TLS": Configuration({"security.ssl.internal.enabled": "true"})}


def seconds_of(secret: bytes, size: int, count: int) -> float:
    """Return processor seconds for sending and receiving frames."""
    done = threading.Event()

    def serve(connection):
        for _ in range(count):
            connection.recv_bytes()
        done.set()

    listener = AuthenticatedListener(secret, serve, name="frames")
    listener.start()
    frame = b"x" * size
    with connect(listener.address, secret) as connection:
        start = time.process_time()
        for _ in range(count):
            connection.send_bytes(frame)
        done.wait()
        seconds = time.process_time() - start
    listener.close()
    return seconds


def connecting(secret: bytes, count: int = 200) -> float:
    """Return processor seconds for a connection with its proof and one message."""
    listener = AuthenticatedListener(secret, lambda connection: send_message(connection, 1), name="connections")
    listener.start()
    start = time.process_time()
    for _ in range(count):
        with connect(listener.address, secret) as connection:
            receive_message(connection)
    seconds = time.process_time() - start
    listener.close()
    return seconds / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    secrets = {side: connection_secret(configuration) for side, configuration in SIDES.items()}
    best: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for side, secret in secrets.items():
            for name, (size, count) in FRAMES.items():
                best[name, side] = min(best.get((name, side), 1e9), seconds_of(secret, size, count) / count)
            best["connection", side] = min(best.get(("connection", side), 1e9), connecting(secret))
    print("| a frame of | plain, us | TLS, us | more |\n|---|---|---|---|")
    for name in [*FRAMES, "connection"]:
        plain, tls = (best[name, side] * 1e6 for side in SIDES)
        print(f"| {name} | {plain:,.1f} | {tls:,.1f} | {tls - plain:,.1f} |")


if __name__ == "__main__":
    main()
