"""Flink's options that mean nothing here, and why: a file written for Flink is read, and each of them is reported.

Everything else that no option knows is an error. Keys and meanings after Flink 2.3's configuration reference.
"""

from __future__ import annotations

_IN_FLIGHT = "barriers stand between epochs, so there are no records in flight to be written"
_CHANGELOG = "there is no changelog state backend; every-epoch and incremental checkpoints shorten the way back"
_MERGING = "small state stands in _metadata (execution.checkpointing.data-inline-threshold), so there are few small files"
_FORST = "there is no disaggregated state backend"
_ROCKSDB = "RocksDB's memory is one number (state.backend.rocksdb.memory.fixed-per-slot), the rest is set by pystate"
_METRICS = "there is one reporter, Prometheus text at /metrics of the job manager, with Flink's default scopes"
_CLUSTER = "Spark starts and places the processes; pystate.spark.master and Spark's own keys say how"

KEYS_WITHOUT_EFFECT: dict[str, str] = {
    "execution.checkpointing.unaligned.": _IN_FLIGHT,
    "execution.checkpointing.unaligned": _IN_FLIGHT,
    "execution.checkpointing.aligned-checkpoint-timeout": _IN_FLIGHT,
    "execution.checkpointing.alignment-timeout": _IN_FLIGHT,
    "execution.checkpointing.force-unaligned": _IN_FLIGHT,
    "execution.checkpointing.during-recovery.": _IN_FLIGHT,
    "execution.checkpointing.recover-without-channel-state.": _IN_FLIGHT,
    "execution.state-recovery.without-channel-state.": _IN_FLIGHT,
    "execution.state-recovery.approximate-local-recovery": "a job restarts as a whole: all tasks share its epochs",
    "execution.checkpointing.checkpoints-after-tasks-finish": "all tasks of a job end with the same epoch, and it has one",
    "execution.checkpointing.interval-during-backlog": "Spark's sources don't say that they work off a backlog",
    "execution.checkpointing.file-merging.": _MERGING,
    "execution.checkpointing.write-buffer-size": "state is written in blocks of 256 KB",
    "state.storage.fs.write-buffer-size": "state is written in blocks of 256 KB",
    "execution.checkpointing.cleaner.parallel-mode": "one thread deletes what checkpoints leave",
    "state.checkpoint.cleaner.parallel-mode": "one thread deletes what checkpoints leave",
    "state.changelog.": _CHANGELOG,
    "state.backend.changelog.": _CHANGELOG,
    "state.backend.forst.": _FORST,
    "state.latency-track.": "state is read in the function's own process; benchmarks/state_access.py measures it",
    "state.backend.latency-track.": "state is read in the function's own process; benchmarks/state_access.py measures it",
    "state.backend.rocksdb.metrics.": "RocksDB, or the binding to it that pystate uses, has no such metric",
    "state.backend.rocksdb.": _ROCKSDB,
    "execution.async-state.": "state is in the function's own process, there is nothing to wait for",
    "jobmanager.execution.failover-strategy": "a job restarts as a whole: all tasks share its epochs",
    "jobmanager.memory.": _CLUSTER,
    "jobmanager.rpc.": _CLUSTER,
    "jobmanager.bind-host": _CLUSTER,
    "taskmanager.": _CLUSTER,
    "metrics.reporter.": _METRICS,
    "metrics.reporters": _METRICS,
    "metrics.scope.": _METRICS,
    "metrics.internal.": _METRICS,
    "metrics.fetcher.": "slots report once a second, and an answer is used for as long",
    "metrics.job.status.enable": "the time in the current state is reported, Flink's default",
    "metrics.latency.": "there are no latency markers: records travel by epoch, see lastEpochDuration",
    "metrics.system-resource": "the machine is not measured",
    "metrics.system-resource-probing-interval": "the machine is not measured",
    "env.java.": _CLUSTER,
    "env.log.dir": _CLUSTER,
    "env.log.level": _CLUSTER,
    "env.pid.dir": _CLUSTER,
    "env.ssh.opts": _CLUSTER,
    "env.hbase.conf.dir": _CLUSTER,
    "env.yarn.conf.dir": _CLUSTER,
    "fs.overwrite-files": "sinks write new files only",
    "fs.output.always-create-directory": "sinks make the folders they need",
    "fs.allowed-fallback-filesystems": "each scheme has one filesystem, there are no plugins to fall back from",
    "s3.entropy.": "S3 spreads the load of a prefix by itself",
    "python.fn-execution.": "functions run in the process that holds their state, there are no bundles",
    "python.state.": "functions run in the process that holds their state, there is no cache between them",
    "python.map-state.": "functions run in the process that holds their state, there is no cache between them",
    "python.client.executable": "the program runs in the Python that pystate itself runs in",
    "python.execution-mode": "functions run in the process that holds their state",
}
"""Key, or the beginning of keys where it ends with a dot -> why it means nothing."""


def why_without_effect(key: str) -> str | None:
    """Return why a key of Flink's means nothing here; None for keys that no such reason is known of."""
    found = KEYS_WITHOUT_EFFECT.get(key)
    if found is not None:
        return found
    return next((why for start, why in KEYS_WITHOUT_EFFECT.items() if start.endswith(".") and key.startswith(start)), None)
