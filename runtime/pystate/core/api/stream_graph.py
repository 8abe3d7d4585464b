"""The job as the program declares it: a graph of transformations from sources to sinks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any, cast

from pystate.common.errors import JobGraphError
from pystate.core.api.transformations import (
    OneInputTransformation,
    SinkTransformation,
    SourceTransformation,
    TimestampsTransformation,
    Transformation,
    TwoInputTransformation,
    UnionTransformation,
    as_written,
    check_same_type,
    is_read_by_spark,
    live_children,
)


class StreamGraph:
    """All steps of one job.

    Args:
        sources: The sources.
        notices: Sentences for the program's author.
        session: The Spark session that the program has given; None if it leaves that to its executor.

    Attributes:
        batch: The job runs in BATCH mode.
    """

    def __init__(self, sources: list[SourceTransformation], notices: Iterable[str] = (), session: Any = None) -> None:
        self.sources = sources
        self.session = session
        for source in sources:
            source.insert_timestamps()
        of_steps = (notice for step in self.transformations() for notice in step.notices)
        self.notices = [*notices, *dict.fromkeys(of_steps)]
        self.batch = False

    def transformations(self) -> Iterator[Transformation]:
        """Yield every step once, parents before children."""
        waiting: dict[int, int] = {}
        stack: list[Transformation] = list(reversed(self.sources))
        while stack:
            step = stack.pop()
            yield step
            for child in reversed(step.children):
                left = waiting.get(id(child), len(child.parents)) - 1
                waiting[id(child)] = left
                if left == 0:
                    stack.append(child)

    def widest_step(self, default: int) -> int:
        """Return the largest parallelism of all steps, without sources, which Spark reads."""
        steps = (step for step in self.transformations() if not is_read_by_spark(step))
        return max([default, *(step.parallelism or default for step in steps)])

    def copy(self) -> StreamGraph:
        """Return a copy of the graph that is independent of what the program builds later.

        The functions are shared; the sources' DataFrames are created when the copy is run.
        """
        steps = list(self.transformations())
        copies: dict[int, Transformation] = {id(step): copy(step) for step in steps}
        for step in steps:
            made = copies[id(step)]
            made.parents = tuple(copies[id(parent)] for parent in step.parents)
            made.children = [copies[id(child)] for child in step.children if id(child) in copies]
            if isinstance(made, SourceTransformation):
                made.follow_timestamps(copies)
        graph = StreamGraph(
            [cast("SourceTransformation", copies[id(source)]) for source in self.sources], session=self.session
        )
        graph.notices, graph.batch = list(self.notices), self.batch
        return graph

    def detach(self) -> None:
        """Detach the steps that a job has taken: the next job consists of steps built later and what they read.

        Source: Flink's `execute()` clears the transformations and finds the inputs of later ones again from these.
        """
        for step in list(self.transformations()):
            step.children = []
            step.detached = True

    @property
    def is_bounded(self) -> bool:
        """Whether all sources that are read are bounded."""
        return all(source.bounded for source in self.live_sources())

    def live_sources(self) -> list[SourceTransformation]:
        """Return the sources that are read by some step."""
        return [source for source in self.sources if live_children(source)]

    def spark_sources(self) -> list[SourceTransformation]:
        """Return the live sources that Spark reads."""
        return [source for source in self.live_sources() if is_read_by_spark(source)]

    def resolve_types(self) -> None:
        """Derive the types of steps, once the types of the sources are known.

        Raises:
            JobGraphError: Streams of different types are united.
        """
        for step in self.transformations():
            if step.keeps_type and step.parents:
                step.output_type = step.parents[0].output_type
            if isinstance(step, UnionTransformation):
                for parent in step.parents[1:]:
                    check_same_type(step.parents[0], parent)

    def assign_uids(self, *, auto: bool) -> dict[int, str]:
        """Return the uid of every step, by `id(step)`.

        A step without a uid gets one from its place in the graph (its kind, its parents' uids, its rank among its siblings),
        so that an unchanged program finds its state again.

        Raises:
            JobGraphError: A uid is used twice, or missing where `auto` is false and the step keeps state.
        """
        uids, refusals = self.uids_and_refusals(auto=auto)
        if refusals:
            raise refusals[0]
        return uids

    def uids_and_refusals(self, *, auto: bool) -> tuple[dict[int, str], list[JobGraphError]]:
        """Return the uid of every step, by `id(step)`, and an error for each that is used twice, or missing."""
        uids: dict[int, str] = {}
        owners: dict[str, Transformation] = {}
        refusals = []
        for step in self.transformations():
            uid = step.uid
            if uid is None:
                if not auto and step.keeps_state:
                    refusals.append(_missing_uid(step))
                uid = self._auto_uid(step, uids)
            if uid in owners and not (refusals and step.uid is None):  # generated ones follow from those upstream
                message = f"The uid {uid!r} is used by two operators: {owners[uid].name!r} and {step.name!r}."
                refusals.append(JobGraphError(message, where=step.place, hint="give each operator a uid of its own"))
            owners.setdefault(uid, step)
            uids[id(step)] = uid
        return uids, refusals

    def _auto_uid(self, step: Transformation, uids: dict[int, str]) -> str:
        siblings = step.parents[0].children if step.parents else list(self.sources)
        kind = type(step).__name__
        if isinstance(step, (OneInputTransformation, TwoInputTransformation, SinkTransformation)):
            kind = step.kind.value
        rank = next(number for number, sibling in enumerate(siblings) if sibling is step)
        place = [kind, str(rank), *(uids[id(as_written(parent))] for parent in step.parents)]
        if isinstance(step, TimestampsTransformation) and as_written(step.parent) is not step.parent:
            place.append("behind the source's strategy")  # from the same line; savepoints hold what this text is hashed to
        return "auto-" + hashlib.sha256("\0".join(place).encode()).hexdigest()[:16]


def _missing_uid(step: Transformation) -> JobGraphError:
    message = f"The operator {step.name!r} keeps state and has no uid."
    where = ", ".join(filter(None, ["pipeline.auto-generate-uids = false", step.place]))
    return JobGraphError(message, where=where, hint=f'add .uid("...") after {step.name!r}')
