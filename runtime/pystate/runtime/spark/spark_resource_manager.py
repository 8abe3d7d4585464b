"""The resource manager that runs a job's slots in its Spark application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pystate.common.configuration.execution_target import local_threads
from pystate.runtime.slot.process import SlotDescription
from pystate.runtime.slot.slot_engine import SlotEngineFactory
from pystate.runtime.spark.applications.application import (
    CoreWatch,
    SparkExecutors,
    check_cores,
    driver_address,
    end_in_cluster,
    is_alive,
)
from pystate.runtime.spark.applications.earlier_applications import end_earlier_applications
from pystate.runtime.spark.applications.executor_check import check_executors
from pystate.runtime.spark.applications.required_cores import RequiredCores
from pystate.runtime.spark.applications.waiting_tasks import lack_of_cores
from pystate.runtime.spark.sessions.authentication import authentication_notices, check_encryption
from pystate.runtime.spark.sessions.block_manager import LocalBlockManager
from pystate.runtime.spark.sessions.jvm_end import jvm_end
from pystate.runtime.spark.sessions.session import check_session, is_own
from pystate.runtime.spark.slot_job import SlotJob
from pystate.runtime.spark.workers.python_daemons import PythonDaemons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkResourceManager:
    """Runs slots as long-running tasks of one Spark application.

    Args:
        spark: The session.
        notices: What the job's author is told of it.

    Attributes:
        application_id: Spark's id of the application.
        version: Spark's version.
        one_machine: Whether all its tasks run on this machine.
    """

    def __init__(self, spark: SparkSession, notices: Sequence[str] = ()) -> None:
        self._spark = spark
        self._notices = notices
        self.application_id = str(spark.sparkContext.applicationId)
        self.version = str(spark.version)
        self.one_machine = local_threads(str(spark.sparkContext.master)) is not None

    @property
    def host(self) -> str:
        """The address at which slots reach this driver."""
        return "127.0.0.1" if self.one_machine else driver_address(self._spark)

    def check_session(self) -> None:
        """Reject settings under which state would be lost or duplicated, and close Spark's listeners to other users."""
        check_session(self._spark)
        from pystate.runtime.spark.sessions.own_connections import guard_listeners  # late: it imports pyspark

        guard_listeners()  # of a session that the program has created itself

    def notices(self, *, real_time: bool, encrypted: bool) -> list[str]:
        """Return notices about the access of others to this Spark, or reject it."""
        application = self._spark.sparkContext.getConf().get
        if encrypted:
            check_encryption(application, real_time=real_time)
        return [*self._notices, *authentication_notices(application, real_time=real_time)]

    def end_earlier(self, say: Callable[[str], object]) -> None:
        """End what earlier drivers of the job have left in the cluster; it may hold the cores that this one needs."""
        if is_own(self._spark.sparkContext):  # the name of another session is not the job's
            end_earlier_applications(self._spark, say)

    def check_slots(
        self,
        required: RequiredCores,
        modules: Sequence[str],
        timeout_s: float,
        *,
        restart: bool,
        say: Callable[[str], object],
    ) -> None:
        """Reject a job if there are too few cores, or if an executor lacks its modules."""
        check_cores(self._spark, required, timeout_s, restart=restart, say=say)
        if not self.one_machine:
            check_executors(self._spark, modules)

    def watch(
        self, required: RequiredCores, timeout_s: float, *, restart: bool, say: Callable[[str], object]
    ) -> CoreWatch | None:
        """Return the watch over the executors of a cluster, some of which may have been lost with the previous attempt."""
        if self.one_machine:
            return None
        # with fewer cores than at first a job may be slower; without a spare one for epochs it would stall
        return CoreWatch(SparkExecutors(self._spark), required.to_go_on(), timeout_s, restart=restart, say=say)

    def allocate(
        self,
        description: SlotDescription,
        engine: SlotEngineFactory,
        count: int,
        on_end: Callable[[str | None], None],
    ) -> SlotJob:
        """Return the job whose tasks are the slots."""
        if self.one_machine:
            PythonDaemons(self._spark).revive()  # the previous attempt may have ended while they started
            blocks = LocalBlockManager(self._spark.sparkContext)
            blocks.remake_folders()  # cleaners of temporary files may have deleted them
            blocks.restore()
        return SlotJob(self._spark.sparkContext, description, engine, count, on_end)

    def lack(self, tasks: int) -> str | None:
        """Return the sentence on which tasks can't run concurrently; None if all can."""
        return lack_of_cores(self._spark.sparkContext, tasks)

    def loss(self) -> str | None:
        """Return how the application was lost; None if it wasn't."""
        told = end_in_cluster(self._spark)
        if told is not None or is_alive(self._spark):
            return told
        end = jvm_end(self._spark)
        return "is gone" if end is None else f"is gone ({end})"
