"""A full demo on real input: run, savepoint, cancel, resume at another parallelism; then compare with an offline count.

`make demo` runs it. It counts the identifiers in the Python standard library's own source files, which a feeder moves into
the watched folder while the job runs. It uses a temporary home, and leaves nothing running.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from word_count import IDENTIFIER

from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader

EXAMPLES = Path(__file__).parent
PYSTATE = shutil.which("pystate", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}") or "pystate"
FILES = 600
FILES_PER_EPOCH = 40
TIMEOUT_S = 100


def standard_library_files():
    """Return source files of the standard library, without its tests and installed packages."""
    root = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
    files = sorted(path for path in root.rglob("*.py") if not left_out & set(path.relative_to(root).parts))
    return [path for path in files if b"\0" not in path.read_bytes()][:FILES]


class Feeder(threading.Thread):
    """Moves copies of files into a folder, a few at a time and atomically."""

    def __init__(self, files, folder, pause_s):
        super().__init__(daemon=True)
        self.files, self.folder, self.pause_s = files, folder, pause_s

    def run(self):
        for path in self.files:
            # many files of the library share a name, and a watched folder must never see one name twice
            copy = self.folder.with_name("incoming") / "-".join(path.parts[-4:])
            shutil.copyfile(path, copy)
            copy.rename(self.folder / copy.name)
            time.sleep(self.pause_s)


class Demo:
    """One demo in a folder of its own."""

    def __init__(self, root):
        self.root = root
        self.home, self.watched, self.output = root / "home", root / "watched", root / "output"
        for folder in (self.home, self.watched, root / "incoming", self.output):
            folder.mkdir()
        conf = EXAMPLES.parent / "conf"
        self.environment = {**os.environ, "PYSTATE_HOME": str(self.home), "PYSTATE_CONF_DIR": str(conf)}
        self.job = None

    def show(self, *arguments):
        """Run a command like an operator would."""
        print(f"\n$ pystate {' '.join(arguments)}", flush=True)
        subprocess.run([PYSTATE, *arguments], env=self.environment, check=True)

    def answer(self, *arguments):
        """Run a command, show and return its single line on stdout."""
        print(f"\n$ pystate {' '.join(arguments)}", flush=True)
        done = subprocess.run([PYSTATE, *arguments], env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        print(done.stdout, end="", flush=True)
        return done.stdout.strip()

    def run(self, parallelism, *options):
        """Start the job and return its id."""
        program = [str(EXAMPLES / "word_count.py"), str(self.watched), str(self.output), str(FILES_PER_EPOCH)]
        self.job = self.answer("run", "-d", "-p", str(parallelism), *options, *program)
        return self.job

    def close(self):
        """Stop the job and the job manager."""
        if self.job is not None:
            with contextlib.suppress(OSError):
                subprocess.run([PYSTATE, "cancel", self.job], env=self.environment, capture_output=True)
        address = self.home / "jobmanager.json"
        if address.exists():
            os.kill(json.loads(address.read_text())["pid"], 15)

    def rows(self):
        """Return all rows the sink has, of all epochs."""
        files = sorted(self.output.glob("*.json"), key=lambda path: int(path.stem))
        return [tuple(json.loads(line)) for path in files for line in path.read_text(encoding="utf-8").splitlines()]

    def wait_for_rows(self, count):
        """Wait until the sink has as many rows as words were fed, for as long as rows arrive."""
        deadline, rows = time.monotonic() + TIMEOUT_S, 0
        seen: set[Path] = set()
        while rows < count:
            for path in set(self.output.glob("*.json")) - seen:
                seen.add(path)
                rows += path.read_bytes().count(b"\n")
                deadline = time.monotonic() + TIMEOUT_S
            if time.monotonic() > deadline:
                sys.exit(f"the sink has {rows:,} of {count:,} rows, and no more have come for {TIMEOUT_S} s")
            time.sleep(0.2)


def compare(what, expected, found):
    """Print and return the numbers of lost and duplicate rows."""
    lost, duplicated = sum((expected - found).values()), sum((found - expected).values())
    sizes = f"expected {sum(expected.values()):>9,}   found {sum(found.values()):>9,}"
    print(f"  {what:26} {sizes}   lost {lost}   duplicated {duplicated}")
    return lost + duplicated


def demo(root):
    """Run the demo; return the number of differences."""
    files = standard_library_files()
    words = [IDENTIFIER.findall(path.read_text(encoding="utf-8", errors="replace")) for path in files]
    half = len(files) // 2
    print(f"{len(files)} source files of the standard library, {sum(map(len, words)):,} identifiers", flush=True)
    job = Demo(root)
    try:
        first_id = job.run(2)
        first = Feeder(files[:half], job.watched, 0.02)
        first.start()
        time.sleep(3)
        job.answer("savepoint", first_id)
        first.join()
        path = job.answer("cancel", "-s", first_id)
        Feeder(files[half:], job.watched, 0.005).start()
        second_id = job.run(3, "-s", path)
        job.wait_for_rows(sum(map(len, words)))
        job.show("list", "-a")
        job.show("checkpoints", second_id)
        final = job.answer("cancel", "-s", second_id)
        return report(words, job.rows(), dict(SnapshotReader(final).keyed_entries("count-words", "count")))
    finally:
        job.close()


def report(words, rows, state):
    """Print the top words and the lost and duplicate rows; return the number of differences."""
    offline = Counter(word for file in words for word in file)
    print("\nTop words")
    for word, count in Counter(state).most_common(5):
        print(f"  {count:>8,}  {word}")
    print("\nAgainst one offline pass over the same files")
    expected_rows = Counter((word, n) for word, count in offline.items() for n in range(1, count + 1))
    return compare("final state (word, count)", offline, Counter(state)) + compare(
        "rows in the sink", expected_rows, Counter(rows)
    )


def main():
    if PYSTATE is None:
        sys.exit("there is no pystate command beside this Python; run `make setup`")
    with tempfile.TemporaryDirectory(prefix="pystate-demo-") as root:
        started = time.monotonic()
        differences = demo(Path(root).resolve())
        print(f"\n{time.monotonic() - started:.0f} s in all")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
