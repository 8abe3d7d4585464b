"""From a program's graph to what runs on Spark, with what speaks against it said before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pystate.api.job_graph import StreamGraph
from pystate.common.configuration import Configuration
from pystate.common.execution_target import local_threads
from pystate.common.options import CoreOptions, PipelineOptions, PystateOptions
from pystate.common.state_settings import StateSettings
from pystate.plan.job_plan import JobPlan, check_column_names
from pystate.plan.planner import JobPlanner
from pystate.spark.application import check_cores
from pystate.spark.executor_check import check_executors, modules_of_workers
from pystate.spark.micro_batch.determinism import non_determinism_notices
from pystate.spark.micro_batch.epoch_bounds import EpochBounds
from pystate.spark.micro_batch.source_shuffles import source_shuffle_notices
from pystate.spark.micro_batch.translator import source_frame, source_type
from pystate.spark.session import check_session
from pystate.state.base.loader import check_state_backend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def plan_job(
    graph: StreamGraph,
    configuration: Configuration,
    spark: SparkSession,
    say: Callable[[str], None],
    waits: Callable[[str], None],
    *,
    restart: bool = False,
) -> tuple[JobPlan, list[DataFrame]]:
    """Return the plan of a job, and the streaming DataFrames of its sources.

    Args:
        graph: The program.
        configuration: The options in force.
        spark: The session.
        say: Takes a sentence for people: warnings.
        waits: Takes a sentence for people: what is waited for.
        restart: Whether the job has run before.

    Raises:
        PystateError: The program, the options, and the Spark that is there don't go together.
    """
    check_session(spark)
    from pystate.spark.own_connections import guard_listeners  # late: it imports pyspark

    guard_listeners()  # of a session that the program has made itself
    parallelism = configuration.get(CoreOptions.DEFAULT_PARALLELISM)
    max_parallelism = configuration.get(PipelineOptions.MAX_PARALLELISM)
    uids = graph.assign_uids(auto=configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))
    sources = graph.live_sources()
    bounds = EpochBounds(configuration, parallelism)
    bounded = [bounds.bound(source_frame(spark, source), source.name) for source in sources]
    frames = [frame for frame, _ in bounded]
    types = [source_type(source, frame) for source, frame in zip(sources, frames, strict=True)]
    for source, elements in zip(sources, types, strict=True):
        check_column_names(elements, source.name)
    plan = JobPlanner(graph, uids, parallelism, max_parallelism if max_parallelism > 0 else None).plan(types)
    state_settings = StateSettings.of(configuration)
    plan.warnings.extend(notice for _, notices in bounded for notice in notices)
    for source, frame in zip(sources, frames, strict=True):
        plan.warnings.extend(non_determinism_notices(source, frame))
        plan.warnings.extend(source_shuffle_notices(source.name, frame))
    check_state_backend(state_settings.backend)
    for warning in [*plan.warnings, *state_settings.notices]:
        say(f"WARNING: {warning}")
    patience_s = configuration.get(PystateOptions.SLOT_STARTUP_TIMEOUT) / 1000
    check_cores(spark, plan.width, patience_s, restart=restart, say=waits)
    if local_threads(str(spark.sparkContext.master)) is None:
        check_executors(spark, modules_of_workers(configuration))
    return plan, frames
