"""Plans a job from the program's graph, and reports problems before anything starts."""

from __future__ import annotations

from pystate.common.configuration.groups.execution_options import (
    CoreOptions,
    ExecutionEngine,
    ExecutionOptions,
    PipelineOptions,
)
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.stream_guarantee import guarantee_lines
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.state.base.loader import check_state_backend
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.job_engine import JobEngine
from pystate.runtime.execution.slots.resource_manager import ResourceManager
from pystate.runtime.plan.delivery_guarantees import DeliveryGuarantees
from pystate.runtime.plan.job_plan import JobPlan, check_column_names
from pystate.runtime.plan.missing_watermarks import missing_watermarks
from pystate.runtime.plan.planner import JobPlanner
from pystate.runtime.spark.applications.executor_check import modules_of_workers


def plan_job(
    graph: StreamGraph,
    job: JobContext,
    engine: JobEngine,
    resources: ResourceManager,
    *,
    restart: bool = False,
    supervised: bool = True,
) -> JobPlan:
    """Return the plan of a job.

    Args:
        graph: The program.
        job: The job.
        engine: Reads its sources.
        resources: Where its slots run.
        restart: Whether the job has run before.
        supervised: Whether a job manager starts the program again when its driver dies.

    Raises:
        PystateError: The program, the options, and where the job is to run don't go together.
    """
    configuration = job.configuration
    resources.check_session()
    parallelism = configuration.get(CoreOptions.DEFAULT_PARALLELISM)
    max_parallelism = configuration.get(PipelineOptions.MAX_PARALLELISM)
    uids = graph.assign_uids(auto=configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))
    waiting = [str(one) for one in missing_watermarks(graph)]  # of the program's own sources
    engine.adapt(graph, uids)
    sources = graph.spark_sources()
    types = engine.read_sources(sources)
    for source, elements in zip(sources, types, strict=True):
        check_column_names(elements, source.name)
    reuse = configuration.get(PipelineOptions.OBJECT_REUSE)
    most = max_parallelism if max_parallelism > 0 else None
    plan = JobPlanner(graph, uids, parallelism, most, object_reuse=reuse).plan(types)
    state_settings = StateSettings.of(configuration)
    plan.warnings.extend((*waiting, *engine.notices()))
    real_time = configuration.get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME
    encrypted = configuration.get(SecurityOptions.SSL_INTERNAL_ENABLED)
    plan.warnings.extend(resources.notices(real_time=real_time, encrypted=encrypted))
    check_state_backend(state_settings.backend)
    plan.guarantees = DeliveryGuarantees(graph, uids, configuration, supervised=supervised).all()
    for line in guarantee_lines(plan.guarantees):
        job.say(line)
    for warning in [*plan.warnings, *state_settings.notices]:
        job.say(f"WARNING: {warning}")
    patience_s = configuration.get(PystateOptions.SLOT_STARTUP_TIMEOUT) / 1000
    modules = modules_of_workers(configuration, engine.worker_modules)
    resources.check_slots(engine.required_cores(plan), modules, patience_s, restart=restart, say=job.waits)
    engine.planned(plan)
    return plan
