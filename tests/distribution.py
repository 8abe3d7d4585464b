"""Which of several processes runs which tests: the files that start what is dear come first, and together."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
SPARK = "the tests in one session of Spark"
SPARK_AND_FAULTS = "the tests in another session of Spark: faults, Kafka, pages and snapshots"
KAFKA = "the tests with one Kafka broker"
STORAGE = "the tests with one HDFS and one S3"
BROWSER = "the tests with one browser"
DATABASES = "the tests with one PostgreSQL and one MariaDB"

LONG = (
    "tests/runtime/engines/real_time/driver/test_awaited_relays.py",
    "tests/runtime/engines/real_time/driver/test_real_time_jobs.py",
    "tests/model/test_protocol.py",
    "tests/ops/jobmanager/rest/test_fuzz.py",
    "tests/core/state/contract/test_value_state_contract.py",
    "tests/runtime/engines/real_time/driver/test_unaligned_checkpoints.py",
    "tests/cli/test_terminal.py",
    "tests/cli/commands/test_rescale.py",
    "tests/cli/test_ops.py",
    "tests/cli/commands/snapshots/savepoints/test_savepoints_disposal.py",
    "tests/cli/commands/test_cluster.py",
    "tests/fidelity/test_answers.py",
    "tests/cli/commands/test_commands.py",
    "tests/cli/test_json.py",
    "tests/ops/jobmanager/high_availability/test_takeover.py",
    "tests/cli/commands/test_new.py",
    "tests/core/state/contract/test_states_model.py",
    "tests/security/test_campaign.py",
    "tests/cli/commands/test_run.py",
    "tests/cli/commands/test_check.py",
    "tests/core/state/rocksdb/test_value_cache.py",
    "tests/ops/jobmanager/test_recovery.py",
    "tests/cli/commands/test_watch.py",
    "tests/runtime/engines/real_time/driver/test_at_least_once.py",
    "tests/e2e/commands/test_cancelled_starts.py",
    "tests/cli/arguments/test_completion.py",
    "tests/fidelity/test_asking.py",
    "tests/cli/commands/test_debug.py",
    "tests/ops/jobmanager/test_small_disk.py",
    "tests/ops/jobmanager/rest/test_rest_api.py",
    "tests/ops/jobmanager/web/test_reverse_proxy.py",
    "tests/cli/client/test_job_manager.py",
    "tests/documents/test_commands_and_links.py",
    "tests/cli/commands/test_wait.py",
    "tests/ops/jobmanager/test_crash_points.py",
    "tests/ops/jobmanager/supervision/test_embedded_jobs.py",
    "tests/core/queryable/proxy/test_kv_state_client_proxy.py",
    "tests/ops/jobmanager/disposal/test_savepoint_disposal.py",
    "tests/fidelity/test_restarts.py",
    "tests/cli/commands/snapshots/test_checkpoint.py",
    "tests/cli/arguments/test_completion_shells.py",
    "tests/ops/jobmanager/spare_drivers/test_spare_drivers.py",
    "tests/runtime/engines/real_time/driver/test_stopped_jobs.py",
    "tests/ops/jobmanager/rest/test_metrics.py",
)
"""Files without a server of their scope's that take more than ten seconds on an idle machine, the longest first."""

_USES_SPARK = re.compile(r"^def \w+\([^)]*\b(spark|run_job)\b", re.MULTILINE)
_USES_KAFKA = re.compile(r"^def \w+\([^)]*\bkafka\b", re.MULTILINE)
_USES_STORAGE = re.compile(r"^from tests\.(core\.file_systems\.conftest|servers\.hdfs_cluster) import", re.MULTILINE)
_FOLDERS = {"tests/ops/jobmanager/dashboard/browser": BROWSER, "tests/connectors/sql": DATABASES}
_SHARED = (SPARK, SPARK_AND_FAULTS, KAFKA, STORAGE, DATABASES, BROWSER)
"""What is dear to start, by fixtures or imports of a file; in the order in which processes take them up."""


@cache
def scope_of(file: str, root: Path = ROOT) -> str:
    """Return what runs in one process with all else of the same scope: the file, or all that share something dear.

    A session of Spark is dear to start and slow until it has run a while, so only two processes have one, which take about
    as long; so it is with brokers of Kafka and with HDFS, of which one process waits for answers most of the time.
    """
    text = (root / file).read_text("utf-8")
    uses_kafka = _USES_KAFKA.search(text)
    if _USES_SPARK.search(text):
        return SPARK if file.startswith("tests/e2e/") and not uses_kafka else SPARK_AND_FAULTS
    if uses_kafka:
        return KAFKA
    if _USES_STORAGE.search(text):
        return STORAGE
    return _FOLDERS.get(str(PurePosixPath(file).parent), file)


def rank(file: str, root: Path = ROOT) -> tuple[int, int]:
    """Return what files are sorted by: the long ones first, so that no process is idle while another ends one of them."""
    scope = scope_of(file, root)
    if scope in _SHARED:
        return 0, _SHARED.index(scope)
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
