"""Which of several processes runs which tests: the files that start what is dear come first, and together."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
SPARK = "the tests in one session of Spark"
KAFKA = "the tests with one Kafka broker"
STORAGE = "the tests with one HDFS and one S3"

LONG = (
    "tests/security/test_campaign.py",
    "tests/ops/jobmanager/high_availability/test_takeover.py",
    "tests/cli/test_terminal.py",
    "tests/cli/commands/test_run.py",
    "tests/ops/jobmanager/test_small_disk.py",
    "tests/ops/jobmanager/test_rest_api.py",
    "tests/ops/jobmanager/test_recovery.py",
    "tests/cli/commands/test_commands.py",
    "tests/testing/test_time_model.py",
    "tests/ops/jobmanager/rest/test_fuzz.py",
    "tests/cli/test_ops.py",
    "tests/cli/commands/test_rescale.py",
    "tests/cli/test_json.py",
    "tests/ops/jobmanager/test_supervision_on_a_full_disk.py",
    "tests/ops/jobmanager/test_driver_restart.py",
    "tests/cli/commands/test_cluster.py",
    "tests/runtime/spark/test_secret_settings.py",
    "tests/cli/commands/test_savepoints_disposal.py",
    "tests/cli/arguments/test_completion.py",
    "tests/runtime/driver/test_toy_engine.py",
    "tests/ops/jobmanager/test_reverse_proxy.py",
    "tests/core/state/contract/test_ttl_restore.py",
    "tests/core/state/contract/test_value_state_contract.py",
    "tests/core/state/contract/test_states_model.py",
    "tests/runtime/checkpoint/test_shared_files_model.py",
)
"""Files without a server of their scope's that take more than ten seconds, the longest first."""

_SHARED = {
    SPARK: re.compile(r"^def \w+\([^)]*\b(spark|run_job)\b", re.MULTILINE),
    KAFKA: re.compile(r"^def \w+\([^)]*\bkafka\b", re.MULTILINE),
    STORAGE: re.compile(r"^from tests\.(core\.file_systems\.conftest|servers\.hdfs_cluster) import", re.MULTILINE),
}
"""What is dear to start, and which files have it, by fixtures or imports. The first that a file has counts."""


@cache
def scope_of(file: str, root: Path = ROOT) -> str:
    """Return what runs in one process with all else of the same scope: the file, or all that share something dear.

    A session of Spark is dear to start and slow until it has run a while, so only one process has one; so it is with brokers
    of Kafka and with HDFS.
    """
    text = (root / file).read_text("utf-8")
    return next((scope for scope, uses in _SHARED.items() if uses.search(text)), file)


def rank(file: str, root: Path = ROOT) -> tuple[int, int]:
    """Return what files are sorted by: the long ones first, so that no process is idle while another ends one of them."""
    scope = scope_of(file, root)
    if scope in _SHARED:
        return 0, list(_SHARED).index(scope)
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
