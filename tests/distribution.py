"""Which of several processes runs which tests: the files that start what is dear come first, and together."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
SPARK = "the tests in one session of Spark"

LONG = (
    "tests/jobmanager/high_availability/test_takeover.py",
    "tests/cli/test_ops.py",
    "tests/e2e/test_command_line.py",
    "tests/cli/commands/test_commands.py",
    "tests/jobmanager/rest/test_fuzz.py",
    "tests/cli/test_terminal.py",
    "tests/cli/test_json.py",
    "tests/cli/commands/test_run.py",
    "tests/cli/commands/test_rescale.py",
    "tests/cli/commands/test_savepoints_disposal.py",
    "tests/cli/commands/test_cluster.py",
    "tests/state/contract/test_ttl_cleanup.py",
    "tests/state/contract/test_ttl_restore.py",
    "tests/state/contract/test_states_model.py",
)
"""Files without a session of Spark that take more than ten seconds."""

_WITH_SPARK = re.compile(r"^def \w+\([^)]*\b(spark|run_job)\b", re.MULTILINE)


@cache
def scope_of(file: str, root: Path = ROOT) -> str:
    """Return what runs in one process with all else of the same scope: the file, or all that share a session of Spark.

    A session is dear to start and slow until it has run a while, so only one process has one.
    """
    return SPARK if _WITH_SPARK.search((root / file).read_text("utf-8")) else file


def rank(file: str, root: Path = ROOT) -> tuple[int, int]:
    """Return what files are sorted by: the long ones first, so that no process is idle while another ends one of them."""
    if scope_of(file, root) == SPARK:
        return 0, 0
    return (1, LONG.index(file)) if file in LONG else (2, 0)


class Distribution(LoadScopeScheduling):
    """Gives each process the next scope when it has hardly any tests left."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid.split("::", 1)[0])


def in_order(items: list[Any]) -> None:
    """Sort collected tests by the rank of their files; those of a file keep their order."""
    files: dict[str, tuple[int, int]] = {}
    for item in items:
        file = item.nodeid.split("::", 1)[0]
        if file not in files:
            files[file] = rank(file)
    items.sort(key=lambda item: files[item.nodeid.split("::", 1)[0]])
