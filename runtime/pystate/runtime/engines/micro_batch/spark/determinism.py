"""Finds non-deterministic expressions in the DataFrame part of a job: `rand()`, `uuid()` and UDFs marked as such.

Rows reach the subtasks through shuffles. When a shuffle file is lost, Spark reruns the tasks that wrote it, and sends the
new output to the subtasks that have not read yet. A row whose key changed then reaches two subtasks, or none; the number of
rows stays the same, so no count reveals it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    SourceTransformation,
    Transformation,
    VirtualTransformation,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REMEDY = (
    "Make it from the row, for example by xxhash64() of columns that tell rows apart, or in a function after key_by(), "
    "which counts once for each row."
)
_UDFS = ("PythonUDF", "PythonUDTF", "ScalaUDF", "ScalaAggregator")
_PLAIN = frozenset({"SparkPartitionID", "InputFileName", "InputFileBlockStart", "InputFileBlockLength"})
"""Not a function of the row alone, and so non-deterministic for Spark, but equal in each run of a task that reads a file."""


@dataclass(frozen=True)
class NonDeterminism:
    """The non-deterministic parts of a DataFrame.

    Attributes:
        expressions: Their names in SQL or Python, each once.
        columns: The columns of the DataFrame that depend on them.
    """

    expressions: tuple[str, ...]
    columns: frozenset[str]


def non_determinism(frame: DataFrame) -> NonDeterminism:
    """Return the non-deterministic expressions of a streaming DataFrame, and the columns that depend on them."""
    found: dict[str, None] = {}
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark has no public way to the plan
    tainted = _walk(plan, found)
    columns = {str(column.name()) for column in _items(plan.output()) if column.exprId().id() in tainted}
    return NonDeterminism(tuple(found), frozenset(columns))


def non_determinism_notices(source: SourceTransformation, frame: DataFrame) -> list[str]:
    """Return notices for the author of a source whose DataFrame is not deterministic."""
    found = non_determinism(frame)
    if not found.expressions:
        return []
    expressions = ", ".join(found.expressions)
    keys = sorted({key for key in _key_columns(source) if key in found.columns})
    what = "a row's key" if keys else "a row"
    where = f", and the key {', '.join(map(repr, keys))} comes from it" if keys else ""
    return [
        f"The source {source.name!r} has {expressions} in its DataFrame{where}: if Spark runs one of its tasks again, "
        f"{what} may come out otherwise, reach two subtasks or none. {_REMEDY}"
    ]


def _key_columns(step: Transformation) -> Iterator[str]:
    """Yield the columns by which the rows of a step are keyed before any function changes them."""
    for child in step.children:
        if isinstance(child, KeyByTransformation):
            if child.column is not None:
                yield child.column
        elif isinstance(child, VirtualTransformation) or (
            isinstance(child, OneInputTransformation) and child.kind is OperatorKind.FILTER
        ):
            yield from _key_columns(child)


def _walk(plan: Any, found: dict[str, None]) -> set[int]:
    """Return the ids of the columns in or below a node that depend on such expressions; add the expressions to `found`."""
    children = list(_items(plan.children()))
    below = [_walk(child, found) for child in children]  # batch plans too: they are joined in each epoch
    tainted = set().union(*below)
    for expression in _items(plan.expressions()):
        names = dict.fromkeys(_culprits(expression))
        found.update(names)
        # a named expression of a projection makes a column, which is tainted by the columns it refers to
        if _class_name(expression) == "Alias" and (names or _refers_to(expression, tainted)):
            tainted.add(expression.exprId().id())
    name = str(plan.nodeName()).strip()
    if name == "Generate" and (any(True for _ in _culprits(plan.generator())) or _refers_to(plan.generator(), tainted)):
        tainted.update(column.exprId().id() for column in _items(plan.generatorOutput()))
    if name == "Union":
        for child in children:
            outputs = zip(_items(plan.output()), _items(child.output()), strict=True)
            tainted.update(own.exprId().id() for own, other in outputs if other.exprId().id() in tainted)
    return tainted


def _culprits(expression: Any) -> Iterator[str]:
    """Yield the innermost non-deterministic expressions."""
    if expression.deterministic():
        return
    inner = [name for child in _items(expression.children()) for name in _culprits(child)]
    kind = _class_name(expression)
    if inner:
        yield from inner
    elif kind not in _PLAIN and all(child.deterministic() for child in _items(expression.children())):
        yield f"the UDF {expression.name()}" if kind in _UDFS else f"{expression.prettyName()}()"


def _refers_to(expression: Any, columns: set[int]) -> bool:
    return any(column.exprId().id() in columns for column in _items(expression.references().toSeq()))


def _class_name(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _items(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.length()):
        yield sequence.apply(index)
