"""Every name of PyFlink 2.3.0 is here, under the same path, and takes the same call.

`pyflink_api.json` is a listing of PyFlink's modules by introspection: module -> name -> what it is. A text in the place of a
class says where it is defined; of a class there are its public methods with their parameters (`name=` has a default). What
only makes sense with a JVM at hand (names and parameters with `java` or `j_` in them) is left out, and so are the connectors
to systems that pystate names nowhere.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import JobGraphError
from pystate.common.not_there import NotThere

LISTED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("pyflink_api.json").read_text("utf-8"))

WRAPPERS = (
    "datastream.connectors.base.Sink",
    "datastream.connectors.base.Source",
    "datastream.connectors.file_system.FileSink",
    "datastream.functions.SourceFunction",
)
"""Their constructors take an object of the JVM, which nothing here has."""


def parameters(text: str) -> list[str]:
    return [part for part in text.removeprefix("static")[1:-1].split(", ") if part]


def incompatible(theirs: list[str], call: Any) -> str | None:
    """Return why a call that PyFlink takes is not taken here; None where each is."""
    try:
        ours = list(inspect.signature(call).parameters.values())
    except ValueError:
        return "has no signature"
    takes_any = any(own.kind is own.VAR_POSITIONAL for own in ours)
    takes_any_name = any(own.kind is own.VAR_KEYWORD for own in ours)
    by_position = [own for own in ours if own.kind in (own.POSITIONAL_ONLY, own.POSITIONAL_OR_KEYWORD)]
    for index, text in enumerate(theirs):
        name, optional = text.rstrip("="), text.endswith("=")
        if name.startswith("*"):
            if not (takes_any_name if name.startswith("**") else takes_any):
                return f"takes no {name}"
        elif index < len(by_position):
            own = by_position[index]
            if own.name != name and not takes_any_name:
                return f"calls {name!r} {own.name!r}"
            if optional and own.default is own.empty:
                return f"needs {name!r}"
        elif not takes_any:
            return f"takes no {name!r}"
    beyond = [own.name for own in by_position[len(theirs) :] if own.default is own.empty]
    named = [own.name for own in ours if own.kind is own.KEYWORD_ONLY and own.default is own.empty]
    return f"needs {', '.join(beyond + named)}" if beyond + named else None


def differences(path: str, listed: Any, ours: Any) -> Iterator[str]:
    """Yield what is missing or incompatible in a class, by path."""
    for name, entry in listed.items():
        where = f"{path}.{name}"
        if name == "__init__" and path in WRAPPERS:
            continue
        if name == "members":
            if issubclass(ours, Enum):
                missing = [member for member in entry if member not in ours.__members__]
                if missing:
                    yield f"{path} lacks the members {missing}"
            else:
                yield f"{path} is no enum"
            continue
        own = ours if name == "__init__" else getattr(ours, name, None)
        if own is None:
            yield f"{where} is missing"
        elif isinstance(entry, dict):
            if not isinstance(own, NotThere):
                yield from differences(where, entry, own)
        elif entry.endswith(")"):
            theirs = parameters(entry)
            if not callable(own):
                yield f"{where} is no method"
                continue
            bound = name == "__init__" or entry.startswith("static") or inspect.ismethod(own)
            why = incompatible(theirs if bound else ["self", *theirs], own)
            if why is not None:
                yield f"{where} {why}"


def all_differences(module: str) -> Iterator[str]:
    try:
        ours = importlib.import_module(f"pystate.{module}")
    except ModuleNotFoundError:
        yield f"{module} is missing"
        return
    for name, entry in LISTED[module].items():
        where, own = f"{module}.{name}", getattr(ours, name, None)
        if own is None:
            yield f"{where} is missing"
        elif isinstance(own, NotThere):
            continue
        elif isinstance(entry, dict):
            yield from differences(where, entry, own)
        elif entry.endswith(")"):
            why = incompatible(parameters(entry), own)
            if why is not None:
                yield f"{where} {why}"


@pytest.mark.parametrize("module", LISTED)
def test_every_name_is_here_and_takes_the_same_call(module):
    assert list(all_differences(module)) == []


NOT_THERE = {
    "common": {"AssignerWithPeriodicWatermarksWrapper"},
    "common.configuration": {"add_jars_to_context_class_loader"},
    "common.io": {"InputFormat"},
    "common.watermark_strategy": {"AssignerWithPeriodicWatermarksWrapper"},
    "datastream": {"CustomCheckpointStorage"},
    "datastream.checkpoint_storage": {"CustomCheckpointStorage"},
    "datastream.connectors.base": {"JavaFunctionWrapper"},
    "datastream.connectors.kafka": {"FlinkKafkaConsumer", "FlinkKafkaProducer"},
    "datastream.output_tag": {"get_gateway"},
}
"""What is imported, and refuses to be used: Java's wrappers, and what comes later. The Table API is apart."""


def refusing(module: str) -> dict[str, NotThere]:
    made = importlib.import_module(f"pystate.{module}")
    return {name: own for name in LISTED[module] if isinstance(own := getattr(made, name, None), NotThere)}


@pytest.mark.parametrize("module", LISTED)
def test_what_refuses_is_named_and_says_why_and_what_to_do(module):
    found = refusing(module)
    if module.startswith("table"):
        assert set(found) == set(LISTED[module]) - {"Row", "RowKind"}
    else:
        assert set(found) == NOT_THERE.get(module, set())
    for name, own in found.items():
        for use in (own, own.builder, lambda own=own: own.for_row_format("path", encoder=None)):
            with pytest.raises(JobGraphError, match=rf"^{name}.* is not there: .+\.") as refused:
                use()
            assert refused.value.hint


def test_a_class_that_refuses_may_stand_in_annotations_and_isinstance():
    from pystate.datastream.connectors.kafka import FlinkKafkaConsumer

    def read(source: FlinkKafkaConsumer) -> FlinkKafkaConsumer | None:
        return source if isinstance(source, FlinkKafkaConsumer) else None

    assert read("no source") is None


def test_row_types_are_made_by_their_class_too():
    from pystate.common.typeinfo import RowTypeInfo, Types

    named = RowTypeInfo([Types.INT(), Types.STRING()], ["id", "text"])
    assert named == Types.ROW_NAMED(["id", "text"], [Types.INT(), Types.STRING()])
    assert RowTypeInfo([Types.INT()]) == Types.ROW([Types.INT()])
    assert (named.get_field_index("text"), named.get_field_index("other")) == (1, -1)


def test_the_table_api_names_sql_of_spark():
    from pystate.table import DataTypes, StreamTableEnvironment
    from pystate.table.expressions import col

    for use in (lambda: StreamTableEnvironment.create(None), DataTypes.INT, lambda: col("a")):
        with pytest.raises(JobGraphError, match="SQL here is Spark's own") as refused:
            use()
        assert "stream.to_data_frame()" in refused.value.hint
        assert "Spark SQL" in refused.value.hint
    with pytest.raises(ImportError):
        from pystate.table import NoSuchName  # noqa: F401


def test_the_comparison_finds_what_would_break_a_call():
    assert incompatible(["a", "b="], lambda a, b=1: None) is None
    assert incompatible(["a", "b="], lambda a, b=1, c=2, *d, e=3: None) is None
    assert incompatible(["*paths"], lambda *files: None) is None
    assert incompatible(["a"], lambda b: None) == "calls 'a' 'b'"
    assert incompatible(["a="], lambda a: None) == "needs 'a'"
    assert incompatible(["a"], lambda: None) == "takes no 'a'"
    assert incompatible(["a"], lambda a, b: None) == "needs b"
    assert incompatible(["*a"], lambda a: None) == "takes no *a"
    assert list(differences("here", {"gone": "()"}, int)) == ["here.gone is missing"]
