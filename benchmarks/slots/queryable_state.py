"""What queries of running state take, and what they take from processing.

    python benchmarks/slots/queryable_state.py [--seconds S] [--keys N]

Three processes, as in a job: a slot that counts words, epoch after epoch without a pause; the proxy; and the client.
*Latency*: one query after the other, each of one key, by backend and consistency, asked of the slot and over the proxy,
beside a bare TCP echo of as many bytes between the client and a process of its own. *Rate*: as many keys as one client gets
through in requests of 1 and of 100, and the processor time that each takes in client, proxy and slot, in microseconds.
*Processing*: how long an epoch takes with 0, 1,000 and 10,000 keys asked for a second (10,000 in requests of 10), in turn,
and how many times as long as without queries in the same round; the same of its processor time; the share of a processor
that the slot's other threads take; and how long a query takes meanwhile.
"""

import argparse
import base64
import json
import os
import platform
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import msgpack
from slot_throughput import SlotSide, arrow_batches

from pystate.common import Types
from pystate.common.configuration.option_types import ANY_PORT
from pystate.core.queryable.kv_state_location import KvStateLocation
from pystate.core.queryable.kv_state_messages import QueryableState, QueryOutcome
from pystate.core.queryable.proxy.kv_state_client_proxy import KvStateClientProxy
from pystate.core.queryable.proxy.proxy_security import ProxySecurity
from pystate.core.queryable.server.kv_state_registry import KvStateRegistry
from pystate.core.queryable.server.kv_state_server import KvStateServer
from pystate.core.state.base.committed_states import CommittedStates
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.queryable import Consistency, KvStateRequest, QueryableStateClient

JOB, TOKEN, SECRET = "5" * 32, "the token of the benchmark", b"the secret of the benchmark, 32b"
ROWS = 2_000
ECHOED = 160
"""Bytes of an echo: about those of a query, and of its answer."""
EPOCHS_OF_A_CHECKPOINT = 50
ROUNDS = 5
UNDER_WAY = 64


def word(number):
    return f"word-{number:05}"


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("counts")
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class Slot:
    """The child with the state: runs epochs while it is told to, and says how long they took."""

    def __init__(self, backend, folder, keys):
        self._side = SlotSide(backend, folder, Count())
        self._versions = CommittedStates(self._side.chain.backend.committed_view)
        self._versions.begin(-1, None)
        self._registry = KvStateRegistry()
        self._registry.add("count", self._side.chain.backend, self._versions)
        self._keys = keys
        self._epoch = 0
        self._took = []
        self._running = threading.Event()
        self._idle = threading.Event()
        self._server = KvStateServer(self._registry, SECRET, host="127.0.0.1", ports=ANY_PORT)
        self._server.start()

    def serve(self):
        codec = KeyCodec(Types.STRING())
        self._run(arrow_batches([word(number) for number in range(self._keys)], codec))
        self._checkpoint()
        states = [state.to_plain() for state in self._registry.states()]
        said = {"address": self._server.address, "states": base64.b64encode(msgpack.packb(states)).decode()}
        print(json.dumps(said), flush=True)
        threading.Thread(target=self._run_on, daemon=True).start()
        for line in sys.stdin:
            if line.strip() == "run":
                self._took.clear()
                self._running.set()
                print("[]", flush=True)
            else:
                self._running.clear()
                self._idle.wait()
                print(json.dumps(self._took), flush=True)

    def _run_on(self):
        words = random.Random(1)
        codec = KeyCodec(Types.STRING())
        batches = [list(arrow_batches([word(words.randrange(self._keys)) for _ in range(ROWS)], codec)) for _ in range(50)]
        while True:
            self._idle.set()
            self._running.wait()
            self._idle.clear()
            begun, worked = time.perf_counter(), time.thread_time()
            self._run(batches[self._epoch % len(batches)])
            self._took.append((time.perf_counter() - begun, time.thread_time() - worked))
            if not self._epoch % EPOCHS_OF_A_CHECKPOINT:
                self._checkpoint()

    def _run(self, batches):
        self._side.epoch(batches)
        self._versions.epoch_finished(self._epoch)
        self._epoch += 1

    def _checkpoint(self):
        self._versions.barrier(self._epoch, int(time.time() * 1000))
        self._versions.checkpoint_ended(self._epoch, completed=True)


class OneSlot:
    """Where the proxy finds the state."""

    def __init__(self, address, states):
        self._locations = {
            state.name: KvStateLocation(state, 1, SECRET, (tuple(address),))
            for state in map(QueryableState.from_plain, states)
        }

    def states(self):
        return [location.state for location in self._locations.values()]

    def locate(self, name):
        return self._locations.get(name, QueryOutcome.UNKNOWN_STATE)


def run_proxy(said):
    found = json.loads(said)
    locations = OneSlot(found["address"], msgpack.unpackb(base64.b64decode(found["states"])))
    proxy = KvStateClientProxy(JOB, locations, ProxySecurity((TOKEN,)), ports=ANY_PORT)
    proxy.start()
    print(proxy.address[1], flush=True)
    sys.stdin.read()


def run_echo():
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(4096):
            connection.sendall(data)


class Child:
    """A process of this file that says something when it is ready."""

    def __init__(self, *words):
        command = [sys.executable, __file__, *map(str, words)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self._process.stdout.readline().strip()

    def call(self, word):
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    @property
    def pid(self):
        return self._process.pid

    def end(self):
        self._process.kill()
        self._process.wait()


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def spread(seconds):
    return percentile(seconds, 0.5), percentile(seconds, 0.99)


def timed(action, seconds):
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        action()
        took.append(time.perf_counter() - begun)
    return took


def echo_latency(seconds):
    child = Child("--echo")
    with socket.create_connection(("127.0.0.1", int(child.said))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def echo():
            connection.sendall(b"x" * ECHOED)
            assert len(connection.recv(4096)) == ECHOED

        found = timed(echo, seconds)
    child.end()
    return found


class Load:
    """Asks for so many keys a second, in requests of `at_once`, until it is ended."""

    def __init__(self, client, keys, per_second, at_once):
        self.took = []
        self._client, self._keys, self._at_once = client, keys, at_once
        self._pause = at_once / per_second if per_second else None
        self._ended = threading.Event()
        self._under_way = threading.Semaphore(UNDER_WAY)
        self.asked = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        if self._pause is None:
            return
        chosen, due = random.Random(2), time.perf_counter()
        while not self._ended.is_set():
            due += self._pause
            delay = due - time.perf_counter()
            if delay > 0.001:
                self._ended.wait(delay)
            self._under_way.acquire()
            words = [word(chosen.randrange(self._keys)) for _ in range(self._at_once)]
            if self._at_once == 1:
                future = self._client.get_kv_state(JOB, "counts", words[0], consistency=Consistency.LIVE)
            else:
                requests = [KvStateRequest("counts", one) for one in words]
                future = self._client.get_kv_states(JOB, requests, consistency=Consistency.LIVE)
            future.add_done_callback(partial(self._done, time.perf_counter()))

    def _done(self, begun, future):
        self.took.append(time.perf_counter() - begun)
        future.result()
        self.asked += self._at_once
        self._under_way.release()

    def end(self):
        self._ended.set()
        self._thread.join()
        for _ in range(UNDER_WAY):  # those that are under way come back
            self._under_way.acquire()
        return self.asked


def measure_backend(backend, seconds, keys):
    with tempfile.TemporaryDirectory() as folder:
        slot = Child("--slot", backend, folder, keys)
        proxy = Child("--proxy", slot.said)
        port = int(proxy.said)
        with (
            QueryableStateClient("127.0.0.1", port, token=TOKEN) as client,
            QueryableStateClient("127.0.0.1", port, token=TOKEN, direct=False) as by_proxy,
        ):
            latency({"slot": client, "proxy": by_proxy}, backend, seconds, keys)
            for way, one in {"slot": client, "proxy": by_proxy}.items():
                rate(one, [os.getpid(), proxy.pid, slot.pid], f"{backend} | {way}", seconds, keys)
            processing(client, slot, backend, seconds, keys)
        proxy.end()
        slot.end()


def latency(clients, backend, seconds, keys):
    sides = {"echo": lambda: echo_latency(seconds)}
    for way, client in clients.items():
        for consistency in Consistency:
            name = f"{way}, `{consistency.value}`"
            sides[name] = partial(asked_one_by_one, client, keys, consistency, seconds)
    found = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            found[name].append(spread(side()))
    for name, rounds in found.items():
        p50, p99 = (statistics.median(column) * 1e6 for column in zip(*rounds, strict=True))
        ratio = statistics.median(one[1] / other[1] for one, other in zip(rounds, found["echo"], strict=True))
        print(f"| {backend} | {name} | {p50:,.0f} | {p99:,.0f} | {ratio:.1f} |", flush=True)


def asked_one_by_one(client, keys, consistency, seconds):
    chosen = random.Random(3)
    return timed(
        lambda: client.get_kv_state(JOB, "counts", word(chosen.randrange(keys)), consistency=consistency).result(), seconds
    )


def processor_microseconds(pid):
    """Return the processor time of all threads of a process."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1000


def rate(client, processes, backend, seconds, keys):
    for at_once in (1, 100):
        before = [processor_microseconds(pid) for pid in processes]
        load, begun = Load(client, keys, 1e9, at_once), time.perf_counter()
        time.sleep(seconds)
        asked, took = load.end(), time.perf_counter() - begun
        costs = [(processor_microseconds(pid) - old) / asked for pid, old in zip(processes, before, strict=True)]
        print(f"| {backend} | {at_once} | {asked / took:,.0f} | {' | '.join(f'{cost:.0f}' for cost in costs)} |", flush=True)


def processing(client, slot, backend, seconds, keys):
    loads = {0: 1, 1_000: 1, 10_000: 10}
    found = {per_second: [] for per_second in loads}
    for _ in range(ROUNDS):
        for per_second, at_once in loads.items():
            slot.call("run")
            worked, begun = processor_microseconds(slot.pid), time.perf_counter()
            load = Load(client, keys, per_second, at_once)
            time.sleep(seconds)
            asked = load.end() / (time.perf_counter() - begun)
            epochs = slot.call("stop")
            of_others = processor_microseconds(slot.pid) / 1e6 - worked / 1e6 - sum(own for _, own in epochs)
            share = of_others / (time.perf_counter() - begun)
            p50, p99 = spread([took for took, _ in epochs])
            own = spread([own for _, own in epochs])[0]
            found[per_second].append((p50, p99, own, share, asked, spread(load.took)[0] if load.took else 0.0))
    for per_second, rounds in found.items():
        p50, p99, own, share, asked, query = (statistics.median(column) for column in zip(*rounds, strict=True))
        pairs = list(zip(rounds, found[0], strict=True))
        longer, dearer = (statistics.median(one[place] / other[place] for one, other in pairs) for place in (0, 2))
        row = f"{per_second:,} | {asked:,.0f} | {p50 * 1e3:.1f} | {p99 * 1e3:.1f} | {longer:.3f}"
        print(f"| {backend} | {row} | {own * 1e3:.1f} | {dearer:.3f} | {share:.1%} | {query * 1e3:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each measurement takes")
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--backends", nargs="*", default=["hashmap", "rocksdb"])
    parser.add_argument("--slot", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--proxy", help=argparse.SUPPRESS)
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.slot:
        backend, folder, keys = options.slot
        Slot(backend, folder, int(keys)).serve()
    elif options.proxy:
        run_proxy(options.proxy)
    elif options.echo:
        run_echo()
    else:
        print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
        for backend in options.backends:
            measure_backend(backend, options.seconds, options.keys)


if __name__ == "__main__":
    main()
