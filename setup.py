"""Adds to wheel and source archive the commit that they are of; pyproject.toml says all else."""

from __future__ import annotations

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
COMMIT = Path("pystate", "commit.txt")


def commit() -> str | None:
    """Return the commit of this tree, marked where the tree has changes; None if there is no telling."""
    try:
        if not (ROOT / ".git").exists():  # an unpacked source archive: its own word counts
            return (ROOT / "runtime" / COMMIT).read_text("utf-8").strip()
        asked = [["git", "rev-parse", "HEAD"], ["git", "status", "--porcelain", "--untracked-files=no"]]
        head, changes = (subprocess.check_output(words, cwd=ROOT, text=True).strip() for words in asked)
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head}-modified" if changes else head


def write_commit(file: Path) -> None:
    """Write the commit to a file; none if there is no telling."""
    known = commit()
    if known is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{known}\n", "utf-8")


class WheelWithCommit(build_py):
    """Writes the commit beside the modules of a wheel."""

    def run(self) -> None:
        """Copy the modules, and write the commit."""
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib) / COMMIT)


class SourcesWithCommit(sdist):
    """Writes the commit into a source archive, whose tree has no history."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Lay out the tree, and write the commit."""
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir, "runtime") / COMMIT)


setup(cmdclass={"build_py": WheelWithCommit, "sdist": SourcesWithCommit})
