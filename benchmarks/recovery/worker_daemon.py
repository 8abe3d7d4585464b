"""What Spark's Python workers take with Spark's own daemon and with pystate's, in turn: time, processor, memory.

    python benchmarks/recovery/worker_daemon.py [ROUNDS] [--engine micro-batch|real-time]
    python benchmarks/recovery/worker_daemon.py ROUNDS --forks

With `--forks` there is no Spark: a process with Spark's path loads what each daemon loads, and forks some that import what
workers of ours do. Else the word count of `recovery.py` runs at parallelism 2, started anew for each side and round, without
a spare driver. Processor time is that of the daemons and their workers alone, from the start of the job to its first result,
and from a kill of all workers to the next one; wall times stand beside it. Memory is that of a job some seconds after its
first result, from `smaps_rollup`: PSS, which shares out what several processes have, and what each has alone. Linux only.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

import pyspark
from keyed_count import machine
from processes import children, processor_s
from recovery import Job, kill

OURS = "pystate's"
SIDES = {OURS: "pystate.runtime.engines.worker_daemon", "Spark's own": "pyspark.daemon"}
SETTLES_S = 4


def processes(job):
    """Return the processes of a job by kind."""
    daemons = children(job.jvm)
    workers = [pid for daemon in daemons for pid in children(daemon)]
    return {"driver": [job.driver], "JVM": [job.jvm], "daemons": daemons, "slots and workers": workers}


def memory_mb(pids):
    """Return (PSS, memory of their own) of processes."""
    found = {}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, kilobytes = line.split()[:2]
            found[name] = found.get(name, 0) + int(kilobytes) / 1024
    return found["Pss:"], found["Private_Clean:"] + found["Private_Dirty:"]


def python_s(job):
    found = processes(job)
    return processor_s(found["daemons"] + found["slots and workers"])


def once(module, engine):
    """Return the figures of one job by their names."""
    figures = {}
    with tempfile.TemporaryDirectory(prefix="pystate-benchmark-") as root:
        begun = time.monotonic()
        job = Job(Path(root).resolve(), 0, **{"spark.python.daemon.module": module, "execution.engine": engine})
        try:
            figures["RUNNING, s"] = time.monotonic() - begun
            job.process_a_word()
            figures["first result, s"] = time.monotonic() - begun
            figures["processor of daemons and workers until then, s"] = python_s(job)
            print(figures, file=sys.stderr, flush=True)
            time.sleep(SETTLES_S)
            found = processes(job)
            memory = {kind: memory_mb(pids) for kind, pids in found.items()}
            for kind, (pss, own) in memory.items():
                figures[f"{kind}: PSS, MB"], figures[f"{kind}: its own, MB"] = pss, own
            for number, name in enumerate(("PSS", "its own")):
                figures[f"all: {name}, MB"] = sum(one[number] for one in memory.values())
            figures["daemons"], figures["slots and workers"] = len(found["daemons"]), len(found["slots and workers"])
            print(figures, file=sys.stderr, flush=True)
            before, daemons = processor_s(found["daemons"]), found["daemons"]
            begun = time.monotonic()
            kill(found["slots and workers"])
            job.process_a_word()
            figures["after all workers are killed, s"] = time.monotonic() - begun
            assert children(job.jvm) == daemons
            figures["processor of daemons and workers from the kill until then, s"] = python_s(job) - before
        finally:
            job.close()
            time.sleep(5)  # what is left ends by itself
    return figures


FORKS = 4
FORKED = """
import gc, importlib, os, resource, sys, time
from pathlib import Path
from pystate.runtime.engines import worker_daemon

if sys.argv[1] == "ours":
    worker_daemon.load()
    gc.collect()
    gc.freeze()
else:
    import pyspark.daemon
used = time.process_time()
ends, children = os.pipe(), []
for _ in range(int(sys.argv[2])):
    told = os.pipe()
    pid = os.fork()
    if not pid:
        began = time.process_time()
        for name in worker_daemon.MODULES:
            importlib.import_module(name)
        os.write(told[1], f"{time.process_time() - began}".encode())
        os.close(ends[1])
        os.read(ends[0], 1)
        os._exit(0)
    children.append((pid, float(os.read(told[0], 100))))
print(used, sum(spent for _, spent in children) / len(children), os.getpid(), *(pid for pid, _ in children), flush=True)
sys.stdin.read()
"""


def forked(which):
    """Return the figures of a daemon and its forks."""
    archives = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    path = os.pathsep.join([*map(str, archives), *(entry for entry in sys.path if entry)])
    process = subprocess.Popen(
        [sys.executable, "-c", FORKED, which, str(FORKS)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    used, spent, *pids = process.stdout.readline().split()
    pss, own = memory_mb(pids)
    process.stdin.close()
    process.wait()
    return {
        "processor of the daemon, s": float(used),
        "processor of each worker's imports, s": float(spent),
        f"daemon and {FORKS} workers: PSS, MB": pss,
        f"daemon and {FORKS} workers: their own, MB": own,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=2)
    parser.add_argument("--engine", default="micro-batch")
    parser.add_argument("--forks", action="store_true")
    asked = parser.parse_args()
    if asked.forks:
        table(
            {side: [] for side in SIDES},
            "without Spark",
            asked.rounds,
            lambda side: forked("ours" if side == OURS else "Spark's"),
        )
        return
    subprocess.run([sys.executable, "-m", "pystate.ops.warm_start.class_data_training"], capture_output=True, check=True)
    table({side: [] for side in SIDES}, asked.engine, asked.rounds, lambda side: once(SIDES[side], asked.engine))


def table(found, what, rounds, measured):
    """Measure the sides in turn, and print the medians."""
    for _ in range(rounds):
        for side, figures in found.items():
            figures.append(measured(side))
    print(machine())
    print(f"{what}, medians of {rounds} rounds, the sides in turn, load average {os.getloadavg()[1]:.1f}\n")
    print(f"| | {' | '.join(found)} |\n|---|---|---|")
    for name in found[OURS][0]:
        print(f"| {name} | {' | '.join(f'{statistics.median(one[name] for one in side):.2f}' for side in found.values())} |")


if __name__ == "__main__":
    main()
