"""The job as its author wrote it: a tree of transformations from sources to sinks.

A `Transformation` is one step of the program; which of them share a task is decided later, by the translation to Spark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation


class OperatorKind(Enum):
    """How a function is called."""

    MAP = "Map"
    FLAT_MAP = "FlatMap"
    FILTER = "Filter"
    PROCESS = "KeyedProcess"
    REDUCE = "Reduce"
    PLAIN_PROCESS = "Process"
    SINK = "Sink"
    CO_MAP = "CoMap"
    CO_FLAT_MAP = "CoFlatMap"
    CO_PROCESS = "CoProcess"
    KEYED_CO_PROCESS = "KeyedCoProcess"
    BROADCAST_PROCESS = "BroadcastProcess"
    KEYED_BROADCAST_PROCESS = "KeyedBroadcastProcess"


class SinkKind(Enum):
    """Where a stream ends."""

    PRINT = "Print"
    FOR_EACH_BATCH = "ForEachBatch"


@dataclass(eq=False)
class Transformation:
    """One step of the program.

    Attributes:
        name: What people see.
        uid: The identity of the step's state across versions of the job, as its author set it.
        parents: The steps this one reads.
        output_type: The type of its elements; None means untyped (pickled between tasks).
    """

    name: str
    parents: tuple[Transformation, ...] = ()
    output_type: TypeInformation | None = None
    uid: str | None = None
    children: list[Transformation] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        """Hang the step under its parents."""
        for parent in self.parents:
            parent.children.append(self)

    @property
    def parent(self) -> Transformation:
        """The only step this one reads."""
        (only,) = self.parents
        return only


@dataclass(eq=False)
class SourceTransformation(Transformation):
    """A streaming DataFrame.

    Attributes:
        frame: Called once per execution attempt; returns the streaming DataFrame.
        single_column: The elements are the values of the only column instead of rows.
        bounded: The job ends when the source has been read.
    """

    frame: Callable[[], Any] | None = None
    single_column: bool = False
    bounded: bool = False


@dataclass(eq=False)
class OneInputTransformation(Transformation):
    """A function over the elements of one stream."""

    kind: OperatorKind = OperatorKind.MAP
    function: Any = None
    keyed: bool = False


@dataclass(eq=False)
class KeyByTransformation(Transformation):
    """Names the key; the next step sees each key in one subtask only.

    Attributes:
        column: The key is this column of the rows, or None.
        selector: The key is what this function returns, or None.
        key_type: The type of the key; None means it is taken from each key.
    """

    column: str | None = None
    selector: Callable[[Any], Any] | None = None
    key_type: TypeInformation | None = None


@dataclass(eq=False)
class SinkTransformation(Transformation):
    """The end of a stream.

    Attributes:
        function: For FOR_EACH_BATCH: called with (DataFrame, epoch).
        identifier: For PRINT: a prefix of every line.
    """

    kind: SinkKind = SinkKind.PRINT
    function: Callable[[Any, int], None] | None = None
    identifier: str | None = None


class StreamGraph:
    """All steps of one job."""

    def __init__(self, sources: list[SourceTransformation]) -> None:
        self.sources = sources

    def transformations(self) -> Iterator[Transformation]:
        """Yield every step once, parents before children."""
        seen: set[int] = set()
        stack: list[Transformation] = list(reversed(self.sources))
        while stack:
            step = stack.pop()
            if id(step) in seen:
                continue
            seen.add(id(step))
            yield step
            stack.extend(reversed(step.children))

    def assign_uids(self, *, auto: bool) -> dict[int, str]:
        """Return the uid of every step, by `id(step)`.

        A step without a uid gets one from its place in the graph (its kind, its parents' uids, its rank among its siblings),
        so that an unchanged program finds its state again.

        Raises:
            JobGraphError: A uid is used twice, or missing where `auto` is false and the step keeps state.
        """
        uids: dict[int, str] = {}
        owners: dict[str, Transformation] = {}
        for step in self.transformations():
            uid = step.uid
            if uid is None:
                if not auto and isinstance(step, OneInputTransformation) and step.keyed:
                    message = f"The operator {step.name!r} keeps state and has no uid."
                    raise JobGraphError(
                        message, where="pipeline.auto-generate-uids = false", hint=f'add .uid("...") behind {step.name!r}'
                    )
                uid = self._auto_uid(step, uids)
            if uid in owners:
                message = f"The uid {uid!r} is used by two operators: {owners[uid].name!r} and {step.name!r}."
                raise JobGraphError(message, hint="give each operator a uid of its own")
            owners[uid] = step
            uids[id(step)] = uid
        return uids

    def _auto_uid(self, step: Transformation, uids: dict[int, str]) -> str:
        siblings = step.parents[0].children if step.parents else list(self.sources)
        kind = step.kind.value if isinstance(step, (OneInputTransformation, SinkTransformation)) else type(step).__name__
        place = [kind, str(next(i for i, s in enumerate(siblings) if s is step)), *(uids[id(p)] for p in step.parents)]
        return "auto-" + hashlib.sha256("\0".join(place).encode()).hexdigest()[:16]
