"""Savepoints of each backend and format, and starts from them, beside Flink's on the same values in the same run.

    python benchmarks/snapshots/snapshots_beside_flink.py --pyflink PYTHON [--keys 1000000] [--rounds 3]

KEYS keys with texts of 200 characters of which half compress, in one subtask. Here a backend is driven as a slot drives it,
without Spark; what is measured is what Flink shows of its subtask: the synchronous and the asynchronous part of a savepoint,
and how long a task that starts from it is INITIALIZING. Flink's state is that of `SELECT k, MAX(v) ... GROUP BY k` in a
MiniCluster. Nothing else runs in either while a snapshot is written. Medians, after them the first of the rounds: a JVM
compiles its code meanwhile.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from incremental_checkpoint import Bench, size

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine

COLUMNS = ("sync_s", "async_s", "restore_s", "bytes")


def write_input(folder, keys):
    os.makedirs(folder)
    with Path(folder, "rows.csv").open("w") as file:
        for key in range(keys):
            file.write(f"{key},{os.urandom(50).hex()}{'-' * 100}\n")


def of_flink(python, folder, keys, rounds, backend):
    """Return kind -> column -> what was measured, in order."""
    command = [python, str(Path(__file__).with_name("snapshots_flink.py")), folder, str(keys), str(rounds), backend]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = defaultdict(lambda: defaultdict(list))
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            for column in COLUMNS:
                if column in told:
                    found[told["kind"]][column].append(told[column])
    return found


def of_ours(folder, keys, rounds, backend):
    """The same of ours; hashmap has one format."""
    found = defaultdict(lambda: defaultdict(list))
    for kind in ("canonical", "native") if backend == "rocksdb" else ("canonical",):
        root = tempfile.mkdtemp(dir=folder)
        bench = Bench(root, 1, backend)
        bench.write(range(keys))
        for number in range(1, rounds + 1):
            bench.completed = ()  # a native one that shares no file with those before
            handles, sync, seconds = bench.checkpoint(number, incremental=kind == "native")
            for column, value in (("sync_s", sync), ("async_s", seconds), ("bytes", size(handles))):
                found[kind][column].append(value)
        bench.close()
        for _ in range(rounds):
            new = Bench(root, 1, backend)
            if kind == "native":
                new.location, new.shared = bench.location, bench.shared
            found[kind]["restore_s"].append(new.restore(handles))
            new.close()
        shutil.rmtree(root)
    return found


def shown(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pyflink", required=True)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    root = tempfile.mkdtemp(prefix="beside-flink-")
    write_input(f"{root}/in", options.keys)
    lines = []
    for backend in ("hashmap", "rocksdb"):
        sides = {
            "Flink": of_flink(options.pyflink, root, options.keys, options.rounds, backend),
            "pystate": of_ours(root, options.keys, options.rounds, backend),
        }
        for kind in ("canonical", "native"):
            for side, found in sides.items():
                if kind in found:
                    told = found[kind]
                    lines.append(
                        f"| {backend} | {kind} | {side} | {statistics.median(told['bytes']) / 1e6:.0f} "
                        f"| {shown([one * 1e3 for one in told['sync_s']], 1)} | {shown(told['async_s'])} "
                        f"| {shown(told['restore_s'])} |"
                    )
    shutil.rmtree(root)
    print(f"{machine()}\n{options.keys:,} keys with texts of 200 characters, one subtask; {options.rounds} rounds\n")
    print("| backend | format | | MB | synchronous ms | asynchronous s | restore s |\n|---|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
