"""What namespaces cost: state in the void namespace against an older checkout, and state in windows against the void one.

    python benchmarks/state/namespaces.py --against CHECKOUT [--kinds NAME ...] [--turns N]
    python benchmarks/state/namespaces.py [--kinds NAME ...] [--turns N]
    python benchmarks/state/namespaces.py --instructions [--against CHECKOUT]

An access is that of `state_access.py`: hot keys in the overlay of one epoch, and cold ones, whose values are read from and
flushed to the backend. The first form runs two processes, one with each checkout's library, that take turns; the second one
compares the void namespace with windows of time (two of them in turn, set before each access) in one process. The third
counts instructions with valgrind instead of taking times: of two runs that differ in the number of epochs only, the
difference is divided by the accesses between them, so that what starts and ends a process is out of it.

Times are nanoseconds of processor time of the calling thread. Compare the ratios of pairs, which are taken one after the
other.
"""

import argparse
import gc
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
BACKENDS = ("hashmap", "rocksdb")
KEYS = 20_000
HOT_KEYS = 1_000
HOT_ACCESSES = 40_000
COUNTED_EPOCHS = (2, 6)
COUNTED_ACCESSES = 2_000
SHOWN = re.compile(r"I\s+refs:\s+([\d,]+)")


class Bench:
    """One kind of state on one backend.

    Args:
        backend: Its name.
        kind: The kind of state.
        folder: For RocksDB.
        one_by_one: In windows, or in the void namespace, one access to a call; None for as many as there are to a call.
    """

    def __init__(self, backend, kind, folder, *, one_by_one=None):
        import state_access as access

        from pystate.common import Types
        from pystate.core.api.state import ValueStateDescriptor
        from pystate.core.state.keys.keys import KeyCodec

        self.access, self.kind = access, access.KINDS[kind]
        used = self.kind if one_by_one != "windows" else replace(self.kind, descriptor=ValueStateDescriptor("unused"))
        self.side = access.BackendSide(backend, used, KeyCodec(Types.STRING()), folder)
        self.keys = [f"key-{number:08d}" for number in range(KEYS)]
        if one_by_one is not None:
            self.side.call = self._in_windows() if one_by_one == "windows" else self._in_void()
        self._run(self.keys)
        self.side.flush()

    def _in_windows(self):
        from pystate.core.state.keys.namespaces import TIME_WINDOWS

        handle = self.side.backend.get_or_create_keyed_state(self.kind.descriptor, TIME_WINDOWS)
        set_namespace, state, access = handle.set_current_namespace, handle.state, self.kind.in_state

        def call(context, _, pairs):
            for number, pair in enumerate(pairs):
                set_namespace((number & 1, 10))
                access(context, state, (pair,))

        return call

    def _in_void(self):
        access = self.kind.in_state

        def call(context, state, pairs):
            for pair in pairs:
                access(context, state, (pair,))

        return call

    def _run(self, keys):
        self.side.run(self.side.prepare(keys))

    def hot(self):
        prepared = self.side.prepare((self.keys[:HOT_KEYS] * (HOT_ACCESSES // HOT_KEYS))[:HOT_ACCESSES])
        return self.access.measure_hot(self.side, prepared, HOT_ACCESSES)

    def cold(self):
        return self.access.measure_cold(self.side, [self.side.prepare(self.keys)], KEYS)

    def epochs(self, count):
        prepared = self.side.prepare(self.keys[:COUNTED_ACCESSES])
        for _ in range(count):
            self.side.run(prepared)
            self.side.flush()


def work():
    """Serve measurements: a line `BACKEND|KIND|HEAT` is answered with nanoseconds per access."""
    benches = {}
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            backend, kind, heat = line.rstrip("\n").split("|")
            if (backend, kind) not in benches:
                place = os.path.join(folder, f"{len(benches)}")
                os.mkdir(place)
                benches[backend, kind] = Bench(backend, kind, place)
            print(getattr(benches[backend, kind], heat)(), flush=True)


def library_of(checkout):
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(checkout).resolve() / "runtime"), str(HERE)])}


def worker(checkout):
    command = [sys.executable, __file__, "--work"]
    return subprocess.Popen(command, env=library_of(checkout), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process, backend, kind, heat):
    process.stdin.write(f"{backend}|{kind}|{heat}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def row(backend, kind, heat, pairs):
    ratios = [new / old for old, new in pairs]
    old, new = (min(side) for side in zip(*pairs, strict=True))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    median = statistics.median(ratios)
    print(
        f"| {backend} | {kind} | {heat} | {old:,.0f} | {new:,.0f} | {new / old:.3f} | {median:.3f} | {spread} |", flush=True
    )


def head(old, new):
    print(f"\n| backend | state | | {old} | {new} | ratio of the best | median ratio of pairs | pairs |")
    print("|---|---|---|---|---|---|---|---|")


def against(checkout, kinds, turns):
    """Compare the void namespace of two checkouts."""
    head("before", "after")
    processes = [worker(checkout), worker(HERE.parent)]
    for backend in BACKENDS:
        for kind in kinds:
            for heat in ("hot", "cold"):
                pairs = []
                for turn in range(turns + 1):
                    order = processes if turn % 2 else processes[::-1]
                    found = {process: ask(process, backend, kind, heat) for process in order}
                    pairs.append((found[processes[0]], found[processes[1]]))
                row(backend, kind, heat, pairs[1:])  # the first turn opens the backends
    for process in processes:
        process.stdin.close()
        process.wait()


def windows(kinds, turns):
    """Compare windows with the void namespace, both one access at a time."""
    head("void", "windows")
    for backend in BACKENDS:
        for kind in kinds:
            with tempfile.TemporaryDirectory() as folder:
                benches = []
                for name in ("void", "windows"):
                    place = os.path.join(folder, name)
                    os.mkdir(place)
                    benches.append(Bench(backend, kind, place, one_by_one=name))
                for heat in ("hot", "cold"):
                    pairs = [tuple(getattr(bench, heat)() for bench in benches) for _ in range(turns)]
                    row(backend, kind, heat, pairs)
                for bench in benches:
                    bench.side.close()


def instructions(checkouts, kinds):
    """Count instructions per access, cold: read, written and flushed."""
    print("\n| backend | state | " + " | ".join(f"{name}" for name, _ in checkouts) + " | ratio |")
    print("|---|---|" + "---|" * (len(checkouts) + 1))
    for backend in BACKENDS:
        for kind in kinds:
            counts = [counted(checkout, backend, kind) for _, checkout in checkouts]
            figures = " | ".join(f"{count:,.0f}" for count in counts)
            print(f"| {backend} | {kind} | {figures} | {counts[-1] / counts[0]:.4f} |", flush=True)


def counted(checkout, backend, kind):
    few, many = (run_counted(checkout, backend, kind, epochs) for epochs in COUNTED_EPOCHS)
    return (many - few) / ((COUNTED_EPOCHS[1] - COUNTED_EPOCHS[0]) * COUNTED_ACCESSES)


def run_counted(checkout, backend, kind, epochs):
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable]
    command += [__file__, "--count", backend, kind, str(epochs)]
    environment = {**library_of(checkout), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(SHOWN.search(done.stderr)[1].replace(",", ""))


def count(backend, kind, epochs):
    """What is counted: some epochs of accesses, without garbage collections, which go over all code that is loaded."""
    global KEYS
    KEYS = COUNTED_ACCESSES
    gc.disable()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(backend, kind, folder)
        bench.epochs(int(epochs))
        os._exit(0)


def main():
    if sys.argv[1:2] == ["--work"]:
        return work()
    if sys.argv[1:2] == ["--count"]:
        return count(*sys.argv[2:])
    sys.path.insert(0, str(HERE))
    from state_access import KINDS

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="CHECKOUT", help="where another version of the library is, in runtime/")
    parser.add_argument("--instructions", action="store_true", help="count instructions, with valgrind")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--turns", type=int, default=9)
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    if arguments.instructions:
        before = [("before", arguments.against)] if arguments.against else []
        return instructions([*before, ("after", HERE.parents[1])], arguments.kinds)
    if arguments.against:
        return against(arguments.against, arguments.kinds, arguments.turns)
    return windows(arguments.kinds, arguments.turns)


if __name__ == "__main__":
    main()
