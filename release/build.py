"""Builds the source archive and the wheel into dist/, byte for byte the same for the same commit: `python -m release.build`.

The wheel is built from the unpacked archive, so that the archive is known to be whole. Times of files are that of the last
commit (SOURCE_DATE_EPOCH). What builds is the setuptools of requirements/build.lock; nothing is fetched.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
_BACKEND = "import sys; from setuptools import build_meta; print(build_meta.{hook}(sys.argv[1]))"


def commit_time(tree: Path = ROOT) -> int:
    """Return the moment of the last commit, as of SOURCE_DATE_EPOCH."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    return int(subprocess.check_output(["git", "-C", str(tree), "log", "-1", "--format=%ct"], text=True))


def build(tree: Path, into: Path, epoch: int) -> tuple[Path, Path]:
    """Build a tree; return the source archive and the wheel.

    Args:
        tree: The tree: a clone, or an unpacked source archive.
        into: The folder for both, made where it is missing.
        epoch: The time of all files in them.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pystate-build-") as scratch, open(tree / "pyproject.toml") as only_one:
        fcntl.flock(only_one, fcntl.LOCK_EX)  # setuptools lays the archive out in the tree, under one name for all builds
        built = _hook("build_sdist", tree, Path(scratch), epoch)
        for left in tree.glob("*.egg-info"):  # it would tell programs that run in the tree of this commit's entry points
            shutil.rmtree(left)
        archive = into / built.name
        _repack(built, archive, epoch)
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")  # noqa: S202 - our own
        unpacked = Path(scratch, archive.name.removesuffix(".tar.gz"))
        wheel = into / _hook("build_wheel", unpacked, Path(scratch), epoch).name
        shutil.move(str(Path(scratch, wheel.name)), wheel)
    return archive, wheel


def _hook(hook: str, tree: Path, into: Path, epoch: int) -> Path:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _BACKEND.format(hook=hook), str(into)],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{hook} failed in {tree}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return into / done.stdout.splitlines()[-1]


def _repack(archive: Path, target: Path, epoch: int) -> None:
    """Write an archive anew without what differs from build to build: order, times, owners, modes."""
    plain = io.BytesIO()
    with tarfile.open(archive) as read, tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as write:
        for entry in sorted(read.getmembers(), key=lambda each: each.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers = epoch, 0, 0, "", "", {}
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            write.addfile(entry, read.extractfile(entry) if entry.isfile() else None)
    with open(target, "wb") as file, gzip.GzipFile("", "wb", 9, file, epoch) as packed:
        packed.write(plain.getvalue())


def main() -> None:
    """Build this tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=DIST)
    into = parser.parse_args().into
    for old in (*into.glob("*.whl"), *into.glob("*.tar.gz")):
        old.unlink()
    for built in build(ROOT, into, commit_time()):
        print(f"{built} ({built.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
