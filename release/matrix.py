"""Runs a seed of the tests with each Python, Spark and pandas that a release says it knows: `python -m release.matrix`.

Each combination has an environment of its own below build/matrix, made by uv from the built wheel, and deleted afterwards. A
Python that isn't here is said to be missing. `--record PAGE` puts the lines of what was run into the table of a page; those
of other combinations stay.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from release.build import ROOT, build, commit_time

UV = ROOT / "build" / "lock-venv" / "bin" / "uv"
FOLDER = ROOT / "build" / "matrix"
COMBINATIONS = (
    ("3.10", "4.1", "2"),
    ("3.10", "4.2", "2"),
    ("3.11", "4.1", "2"),
    ("3.11", "4.2", "2"),
    ("3.11", "4.3", "2"),
    ("3.11", "4.3", "3"),
    ("3.12", "4.3", "2"),
    ("3.12", "4.3", "3"),
    ("3.13", "4.1", "2"),
    ("3.13", "4.3", "2"),
    ("3.14", "4.2", "2"),
    ("3.14", "4.3", "2"),
    ("3.14", "4.3", "3"),
)
"""(Python, pyspark, pandas). pyspark 4.3 and pandas 3 have no Python 3.10."""
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "packaging", "requests", "psutil")
WITHOUT_SPARK = (
    "tests/core/state/contract/test_value_state_contract.py",
    "tests/core/state/contract/test_values_of_many_keys.py",
    "tests/core/records",
    "tests/testing/test_keyed_batches.py",
    "tests/fixtures/test_compatibility.py",
    "tests/cli/commands/test_new.py",
)
ON_SPARK = (
    "tests/e2e/streams/test_epochs_on_spark.py::test_an_empty_epoch_and_an_epoch_of_one_row_reach_every_subtask",
    "tests/runtime/engines/micro_batch/spark/test_output_frame.py",
    "tests/state_processor/test_savepoint_reader.py",
)
MARKS = re.compile(r"<!-- matrix -->\n.*?<!-- end -->", re.DOTALL)
_SUMMARY = re.compile(r"(?m)^(?:=+ )?((?:\d+ \w+(?:, )?)+) in [\d.:]+")
_HEAD = "| Python | Spark | pandas | without Spark | on Spark |\n|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Row:
    """What one combination came to.

    Attributes:
        versions: Those of Python, pyspark and pandas, as installed.
        results: What the tests without and those on Spark said; or one sentence that says why there was none.
    """

    versions: tuple[str, str, str]
    results: tuple[str, ...]

    def __str__(self) -> str:
        """Return the line of the table."""
        return f"| {' | '.join((*self.versions, *self.results, *[''] * (2 - len(self.results))))} |"

    @property
    def is_good(self) -> bool:
        """Whether all tests passed."""
        return len(self.results) == 2 and not any("failed" in result or "error" in result for result in self.results)


def interpreter(python: str) -> str | None:
    """Return the path of a Python; None if it isn't here."""
    there = [shutil.which(f"python{python}"), *map(str, Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))]
    for found in filter(None, there):
        done = subprocess.run([found, "-c", "import sys; print(sys.version)"], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.startswith(f"{python}."):
            return found
    return None


def run(wheel: Path, python: str, spark: str, pandas: str, *, with_spark: list[str]) -> Row:
    """Make the environment of a combination, and run the tests in it."""
    asked = (python, spark, pandas)
    found = interpreter(python)
    if found is None:
        return Row(asked, ("this Python isn't here",))
    venv = FOLDER / "-".join(asked)
    shutil.rmtree(venv, ignore_errors=True)
    venv.parent.mkdir(parents=True, exist_ok=True)
    try:
        overrides = venv.with_suffix(".txt")
        overrides.write_text(f"pyspark=={spark}.*\npandas=={pandas}.*\n")
        for words in (
            ["venv", "--quiet", "--python", found, str(venv)],
            ["pip", "install", "--quiet", "--python", str(venv), "--override", str(overrides), f"{wheel}[java]", *TOOLS],
        ):
            done = subprocess.run([str(UV), *words], capture_output=True, text=True, check=False)
            if done.returncode:
                (venv.parent / f"{venv.name}.log").write_text(done.stderr)
                why = next((line.strip() for line in done.stderr.splitlines() if line.strip()), "")
                return Row(asked, (f"can't be installed: {why[:150]}",))
        versions = (_version(venv, "-c", "import platform; print(platform.python_version())"),)
        ask = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
        known = (*versions, *(_version(venv, "-c", ask, name) for name in ("pyspark", "pandas")))
        core = _pytest(venv, WITHOUT_SPARK, [])
        return Row(known, (core, _pytest(venv, ON_SPARK, with_spark)))
    finally:
        shutil.rmtree(venv, ignore_errors=True)


def _version(venv: Path, *words: str) -> str:
    return subprocess.check_output([str(venv / "bin" / "python"), *words], text=True, cwd=venv).strip()


def _pytest(venv: Path, tests: tuple[str, ...], before: list[str]) -> str:
    """Run tests of this tree against the installed wheel; return pytest's counts."""
    options = ("-q", "-p", "no:cacheprovider", "-o", "pythonpath=.", "--timeout", "3600")  # the machine may be a busy one
    command = [*before, str(venv / "bin" / "python"), "-m", "pytest", *options]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = f"{venv / 'bin'}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [*command, "-m", "not slow", *tests], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    log = venv.parent / f"{venv.name}-{'spark' if tests is ON_SPARK else 'core'}.log"
    log.write_text(done.stdout + done.stderr)
    counts = _SUMMARY.findall(done.stdout)
    return counts[-1] if counts else f"error: no test ran ({log.relative_to(ROOT)})"


def rows(only: list[str], with_spark: list[str], wheel: Path | None) -> Iterator[Row]:
    """Run the combinations, one after the other, with a wheel that is there or is built for them."""
    with tempfile.TemporaryDirectory(prefix="pystate-matrix-") as folder:
        wheel = wheel or build(ROOT, Path(folder), commit_time())[1]
        for combination in COMBINATIONS:
            if not only or any("-".join(combination).startswith(each) for each in only):
                yield run(wheel, *combination, with_spark=with_spark)


def recorded(page: str, done: list[Row]) -> str:
    """Return a page with lines of its table replaced or added, in the order of the combinations."""
    shown = MARKS.search(page)
    if shown is None:
        raise SystemExit("The page has no place for the table: <!-- matrix --> and <!-- end -->.")
    lines = {}
    for line in shown[0].removesuffix("<!-- end -->").partition(_HEAD)[2].splitlines():
        python, spark, pandas = line.strip("| ").split(" | ")[:3]
        lines[_combination(python, spark, pandas)] = line
    lines |= {_combination(*row.versions): str(row) for row in done}
    table = "".join(f"{lines[combination]}\n" for combination in COMBINATIONS if combination in lines)
    return page.replace(shown[0], f"<!-- matrix -->\n{_HEAD}{table}<!-- end -->")


def _combination(python: str, spark: str, pandas: str) -> tuple[str, str, str]:
    return _minor(python), _minor(spark), pandas.split(".")[0]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="PYTHON[-SPARK[-PANDAS]]")
    parser.add_argument("--with-spark", default="", metavar="COMMAND", help="goes before the tests that start Spark")
    parser.add_argument(
        "--wheel", type=Path, metavar="FILE", help="installed in the place of one that is built of this tree"
    )
    parser.add_argument("--record", type=Path, metavar="PAGE", help="keep the lines in the table between the page's markers")
    given = parser.parse_args()
    print(_HEAD, end="", flush=True)
    done = []
    for row in rows(given.only, given.with_spark.split(), given.wheel):
        print(row, flush=True)
        done.append(row)
    if given.record:
        given.record.write_text(recorded(given.record.read_text("utf-8"), done), "utf-8")
    sys.exit(0 if all(row.is_good for row in done) else 1)


if __name__ == "__main__":
    main()
