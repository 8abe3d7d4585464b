"""A job with churn for an hour: does anything grow without bound?

    python benchmarks/soak.py run FOLDER [--minutes 60] [--rate 1000] [--backend rocksdb] [--engine micro-batch]
        [--parallelism 2] [--memory SIZE] [--every 15]
    python benchmarks/soak.py report FOLDER [--warm-up 15] [--svg FILE]

`run` starts `soak_job.py` with a checkpoint each second (incremental on rocksdb) and a savepoint each five minutes, of
which the latest is kept, and looks at all that belongs to the job: each process by itself, from /proc; the JVM's heap by
jstat, and what is left behind a full collection each five minutes; files in the slots' working folders, the checkpoint
storage, Spark's scratch, the home and its logs. Each look is a line of FOLDER/samples.jsonl; the job's TMPDIR is there, too.
`report` prints for each figure its beginning, its end, and its slope by a linear fit after the warm-up, and draws all of
them. It may be asked while `run` goes on. Linux only.
"""

import argparse
import contextlib
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from keyed_count import machine
from line_plots import line_plots
from processes import children
from running_job import RunningJob

JOB = Path(__file__).with_name("soak_job.py")
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SAVEPOINT_S = COLLECT_S = 300
UNITS = {"rss": "MB", "bytes": "MB", "heap": "MB", "metaspace": "MB", "files": "", "fds": "", "threads": "", "cpu": "s"}


class Processes:
    """Those of a job, by what they are."""

    def __init__(self, driver):
        self.driver = driver
        self._slots = {}

    def find(self):
        """Yield name and number of each."""
        yield "driver", self.driver
        for child in children(self.driver):
            with contextlib.suppress(OSError):
                if "java" in os.readlink(f"/proc/{child}/exe"):
                    yield "jvm", child
                    yield from self._workers(child)

    def _workers(self, jvm):
        listening = listening_inodes()
        for daemon in children(jvm):
            yield "daemon", daemon
            for worker in children(daemon):
                if worker not in self._slots and inodes(worker) & listening:
                    self._slots[worker] = f"slot{len(self._slots)}"
                yield self._slots.get(worker, "workers"), worker


def listening_inodes():
    """Return the inodes of listening sockets."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.add(fields[9])
    return found


def inodes(pid):
    """Return the inodes of a process's sockets."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{entry}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def look_at_processes(processes):
    """Return figures of all processes; those of workers, which come and go, are added up."""
    row = {}
    for name, pid in processes.find():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            figures = {
                "rss": int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6,
                "fds": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": int(fields[17]),
                "cpu": (int(fields[11]) + int(fields[12])) / TICK,
            }
            for figure, value in figures.items():
                row[f"{name} {figure}"] = row.get(f"{name} {figure}", 0) + value
            if name == "workers":
                row["workers count"] = row.get("workers count", 0) + 1
            if name == "jvm":
                row |= heap(pid)
    return row


def heap(pid):
    """Return the heap without what was allocated since the last collection, and the space of classes."""
    done = subprocess.run(["jstat", "-gc", str(pid)], capture_output=True, text=True)
    lines = done.stdout.split("\n")
    if done.returncode or len(lines) < 2:
        return {}
    of = dict(zip(lines[0].split(), lines[1].split(), strict=True))
    used = sum(float(of[name]) for name in ("S0U", "S1U", "OU"))
    return {"jvm heap": used / 1e3, "jvm metaspace": float(of["MU"]) / 1e3}


def heap_after_a_collection(pid):
    subprocess.run(["jcmd", str(pid), "GC.run"], capture_output=True)
    return heap(pid).get("jvm heap", float("nan"))


def files_below(folder):
    count = size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(parent, name))
                count, size = count + 1, size + status.st_blocks * 512
    return count, size / 1e6


def look_at_files(root, job):
    """Return figures of folders: the working folders of slots, Spark's scratch, what else is temporary, and so on."""
    places = {"home": [root / "home"], "logs": [root / "home" / "jobs" / job], "checkpoints": [root / "checkpoints"]}
    places |= {"savepoints": [root / "savepoints"], "slots": [], "spark": [], "other": []}
    for entry in (root / "tmp").iterdir():
        if entry.name == f"pystate-{os.getuid()}":
            places["spark"].append(entry)
        else:
            places["slots" if entry.name.startswith("pystate-") else "other"].append(entry)
    row = {}
    for name, folders in places.items():
        counts = [files_below(folder) for folder in folders if folder.is_dir()]
        row[f"{name} files"] = sum(count for count, _ in counts)
        row[f"{name} bytes"] = sum(size for _, size in counts)
    return row


class Samples:
    """A file of rows whose columns may become more."""

    def __init__(self, path):
        self.path = path

    def add(self, row):
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def table(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def run(asked):
    root = Path(asked.folder).resolve()
    (root / "tmp").mkdir(parents=True)
    os.environ["TMPDIR"] = str(root / "tmp")
    settings = {
        "execution.engine": asked.engine,
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.savepoint-dir": str(root / "savepoints"),
        "state.backend.type": asked.backend,
        "execution.checkpointing.incremental": str(asked.backend == "rocksdb").lower(),
        "pystate.epoch.interval": "500 ms",
        "pystate.log.max-size": "11 mb",
        "state.backend.rocksdb.memory.fixed-per-slot": asked.memory,
    }
    samples = Samples(root / "samples.jsonl")
    about = f"{asked.backend} ({asked.memory}), {asked.engine}, {asked.rate} elements/s, parallelism {asked.parallelism}"
    (root / "about").write_text(f"{about}\n{machine()}\n")
    with RunningJob(root, JOB, [asked.rate], asked.parallelism, settings) as job:
        driver = json.loads((job.home / "jobs" / job.job_id / "driver.json").read_text())["pid"]
        processes = Processes(driver)
        started, saved, collected, savepoint = time.time(), 0.0, 0.0, None
        while (elapsed := time.time() - started) < asked.minutes * 60:
            row = {"hours": elapsed / 3600, "load": os.getloadavg()[0]}
            row |= look_at_processes(processes) | look_at_files(root, job.job_id)
            row["shm files"] = sum(1 for _ in Path("/dev/shm").glob(f"pystate-{job.job_id[:16]}*"))  # noqa: S108
            if elapsed - collected > COLLECT_S:
                jvm = next(pid for name, pid in processes.find() if name == "jvm")
                row["jvm heap after a collection"], collected = heap_after_a_collection(jvm), elapsed
            if elapsed - saved > SAVEPOINT_S:
                saved, before = elapsed, savepoint
                savepoint = job.call("savepoint", job.job_id).split()[-1]
                if before:
                    job.call("savepoint", "-d", before)
            samples.add(row)
            if not Path(f"/proc/{driver}").exists():
                sys.exit(f"the driver is gone: {job.call('list', '-a')}")
            time.sleep(max(0, asked.every - (time.time() - started - elapsed)))
        checkpoints = job.completed_checkpoints()
        durations = [one["endToEndDuration"] for one in checkpoints]
        print(f"the last {len(durations)} checkpoints: median {statistics.median(durations)} ms")


def slope(points):
    """Return (value at the first, at the last, slope) of the line of least squares."""
    xs, ys = zip(*points, strict=True)
    slope, start = statistics.linear_regression(xs, ys)
    return start + slope * xs[0], start + slope * xs[-1], slope


def report(asked):
    root = Path(asked.folder)
    rows = Samples(root / "samples.jsonl").table()
    names = sorted({name for row in rows for name in row} - {"hours"})
    hours = rows[-1]["hours"]
    with (root / "samples.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["hours", *names])
        writer.writeheader()
        writer.writerows(rows)
    print(
        (root / "about").read_text() + f"{hours * 60:.0f} minutes, {len(rows)} looks; load {rows[-1]['load']:.1f} at the end"
    )
    print(f"\n| | by the fit at {asked.warm_up:.0f} min | at the end | slope, per hour | largest |\n|---|---|---|---|---|")
    plots = []
    for name in names:
        points = [(row["hours"], row[name]) for row in rows if name in row]
        unit = next((unit for word, unit in UNITS.items() if word in name), "")
        plots.append((f"{name} {unit}".strip(), [(name, points)]))
        late = [point for point in points if point[0] * 60 >= asked.warm_up]
        if len(late) > 2 and len({hour for hour, _ in late}) > 1:
            first, last, per_hour = slope(late)
            most = max(value for _, value in points)
            print(f"| {name} {unit} | {first:,.1f} | {last:,.1f} | {per_hour:+,.1f} | {most:,.1f} |")
    if asked.svg:
        Path(asked.svg).write_text(line_plots((root / "about").read_text().splitlines()[0], "hours", plots))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.set_defaults(call=run)
    running.add_argument("folder")
    running.add_argument("--minutes", type=float, default=60)
    running.add_argument("--rate", type=int, default=1000)
    running.add_argument("--backend", default="rocksdb")
    running.add_argument("--engine", default="micro-batch")
    running.add_argument("--memory", default="32 mb", help="of RocksDB in a slot: a small one is full soon")
    running.add_argument("--parallelism", type=int, default=2)
    running.add_argument("--every", type=float, default=15)
    reporting = commands.add_parser("report")
    reporting.set_defaults(call=report)
    reporting.add_argument("folder")
    reporting.add_argument("--warm-up", type=float, default=15)
    reporting.add_argument("--svg")
    asked = parser.parse_args()
    asked.call(asked)


if __name__ == "__main__":
    main()
