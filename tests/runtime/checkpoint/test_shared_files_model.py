"""Whatever is triggered, completed, failed, heard of late or never: what a retained checkpoint names is there."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pytest import MonkeyPatch

from pystate.common.errors import SnapshotError
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.retention.shared_state_files import SharedStateFiles
from tests.hypothesis_profiles import of_model
from tests.runtime.checkpoint.shared_files import CrashError, ModelJob, write_all


class SharedFilesModel(RuleBasedStateMachine):
    """Checkpoints of a job whose slots and storage behave as badly as they may."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="shared-files-"))
        self.patches = MonkeyPatch()
        self.metadata_fails: str | None = None
        self.discards_fail = False
        self.crashes = False
        self._break_storage()

    def _break_storage(self) -> None:
        write, discard, subsumed = SnapshotLocation.write_metadata, SnapshotLocation.discard, SharedStateFiles.subsumed

        def write_metadata(location: SnapshotLocation, data: bytes) -> Any:
            mode, self.metadata_fails = self.metadata_fails, None
            if mode != "metadata":
                write(location, data)
            if mode is not None:
                message = "no answer"
                raise SnapshotError(message)

        def discard_unless(location: SnapshotLocation) -> None:
            if self.discards_fail:
                message = "not allowed"
                raise SnapshotError(message)
            discard(location)

        def subsumed_unless(shared: SharedStateFiles, lowest: int) -> None:
            if self.crashes:
                raise CrashError
            subsumed(shared, lowest)

        self.patches.setattr(SnapshotLocation, "write_metadata", write_metadata)
        self.patches.setattr(SnapshotLocation, "discard", discard_unless)
        self.patches.setattr(SharedStateFiles, "subsumed", subsumed_unless)

    @initialize(retained=st.integers(1, 3), concurrent=st.integers(1, 3))
    def start(self, retained: int, concurrent: int) -> None:
        self.retained = retained
        options = {"num-retained": str(retained), "max-concurrent-checkpoints": str(concurrent)}
        self.job = ModelJob(self.root, {f"execution.checkpointing.{name}": value for name, value in options.items()})

    # -- what the job does

    @rule(full=st.booleans())
    def checkpoint(self, full: bool) -> None:
        """A checkpoint from trigger to completion, beside those that are under way."""
        write_all(self.job)

        def run() -> None:
            self._end_epoch()
            self.job.trigger(full=full)
            self._upload_all()

        self._unless_crashed(run)

    @rule(full=st.booleans(), compacted=st.integers(0, 3))
    def trigger(self, full: bool, compacted: int) -> None:
        write_all(self.job)
        for backend in self.job.slots.backends[compacted : compacted + 1]:
            backend.compact()
        self._unless_crashed(lambda: self.job.trigger(full=full))

    @rule(full=st.lists(st.booleans(), min_size=2, max_size=3))
    def several_at_a_time(self, full: list[bool]) -> None:
        """Checkpoints that are under way together, as many as may be, and complete one after the other."""

        def run() -> None:
            self._end_epoch()
            for one in full:
                write_all(self.job)
                self.job.trigger(full=one)
            self._upload_all()

        self._unless_crashed(run)

    @rule()
    def trigger_savepoint(self) -> None:
        self.job.coordinator.trigger_savepoint(None, hold=False, format=SavepointFormatType.NATIVE)
        self._unless_crashed(self.job.pump)

    @rule()
    def subtask_of_an_epoch(self) -> None:
        """Subtasks come to an epoch's end one after the other; so they learn of its barrier at different moments."""
        self._unless_crashed(self.job.begin_epoch if self.job.running is None else self.job.ask)

    @precondition(lambda self: self.job.running is not None)
    @rule()
    def end_epoch(self) -> None:
        self._unless_crashed(self._end_epoch)

    @precondition(lambda self: self.job.slots.uploads)
    @rule(which=st.integers(0, 5))
    def upload(self, which: int) -> None:
        self._unless_crashed(lambda: self.job.upload(which % len(self.job.slots.uploads)))

    @precondition(lambda self: self.job.slots.uploads)
    @rule()
    def upload_all(self) -> None:
        self._unless_crashed(self._upload_all)

    @precondition(lambda self: self.job.slots.notifications)
    @rule(which=st.integers(0, 5), lost=st.booleans())
    def hear(self, which: int, lost: bool) -> None:
        """A slot hears of the end of a checkpoint, or never does: a call that failed is not repeated."""
        which %= len(self.job.slots.notifications)
        if lost:
            del self.job.slots.notifications[which]
        else:
            self.job.slots.hear(which)

    # -- what goes wrong

    @rule(
        fault=st.sampled_from(
            [
                "declined",
                "expired",
                "metadata",
                "metadata answer",
                "answer and deletions",
                "deletions",
                "crash before them",
            ]
        )
    )
    def fail(self, fault: str) -> None:
        job = self.job
        match fault:
            case "declined":
                if job.slots.uploads:
                    self._unless_crashed(lambda: job.upload(0, failing=True))
            case "expired":
                job.now += 10_000
                self._unless_crashed(job.pump)
            case "metadata" | "metadata answer":
                self.metadata_fails = fault
            case "answer and deletions":
                self.metadata_fails, self.discards_fail = fault, True
            case "deletions":
                self.discards_fail = not self.discards_fail
            case _:
                self.crashes = True

    @rule(crash=st.booleans(), parallelism=st.integers(1, 3), bases=st.integers(0, 2))
    def begin_again(self, crash: bool, parallelism: int, bases: int) -> None:
        if crash:
            self.job.crash(parallelism, bases)
        else:
            self.job.restart(bases)

    def _end_epoch(self) -> None:
        while self.job.running is not None:
            self.job.ask()

    def _upload_all(self) -> None:
        while self.job.slots.uploads:
            self.job.upload()

    def _unless_crashed(self, run: Any) -> None:
        try:
            run()
        except CrashError:
            self.crashes = False
            self.job.crash(2, 0)

    # -- what must hold

    @invariant()
    def what_checkpoints_name_is_there(self) -> None:
        if hasattr(self, "job"):
            assert self.job.missing() == []

    def teardown(self) -> None:
        try:
            if hasattr(self, "job"):
                self._end()
        finally:
            if hasattr(self, "job"):
                self.job.coordinator._statistics.close()
            self.patches.undo()
            shutil.rmtree(self.root)

    def _end(self) -> None:
        """In the end nothing is left that nobody needs."""
        self.crashes, self.metadata_fails, self.discards_fail = False, None, False
        job = self.job
        job.complete_all()
        job.restart(0)  # what dead slots have left goes with the attempt
        for _ in range(self.retained + 1):
            future = job.trigger()
            job.complete_all()
            assert future.result(0).metadata.shared_files == [] or job.missing() == []
        assert job.files() == job.named()
        assert len(job.snapshots()) == self.retained
        job.coordinator.close(JobStatus.FINISHED)
        assert job.files() == set()


class _AtLength(SharedFilesModel):
    """The same, which needs settings of its own."""


TestSharedFiles = SharedFilesModel.TestCase
TestSharedFiles.settings = of_model(30, 10, slow=False)
TestSharedFilesAtLength = pytest.mark.slow(pytest.mark.timeout(1200)(_AtLength.TestCase))
TestSharedFilesAtLength.settings = of_model(30, 25, slow=True)
