"""The resource `PystateJob` as people write it: its fields, for the definition, for reading one, and for the docs.

`python -m pystate_operator.custom_resource deploy/helm/pystate/crds/pystatejobs.yaml` writes the definition.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pystate.common.configuration.option_types import DurationType
from pystate.common.errors import PystateError
from pystate_operator.resource import DesiredState, LifecycleState, Spec, UpgradeMode, Version

GROUP, API_VERSION, PLURAL, KIND = "pystate.dev", "v1alpha1", "pystatejobs", "PystateJob"
BLUE_GREEN = "blueGreen"
_DURATION = DurationType()
_DURATION_SCHEMA = {"type": "string", "pattern": r"^\s*[0-9]+\s*[A-Za-zµ]*\s*$"}
_PARALLELISM = {"type": "integer", "minimum": 1, "maximum": 1 << 15}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


class SpecError(PystateError):
    """A resource asks for what can't be."""


@dataclass(frozen=True)
class Field:
    """A field of `spec`.

    Attributes:
        path: Its name, with those of the objects that it is in.
        schema: What its values are, as OpenAPI has it.
        meaning: For people.
        default: Its value where it is missing; None for none.
        required: Whether it may not be missing.
        is_of_version: Whether another value is another version, which replaces the one that runs.
    """

    path: str
    schema: Mapping[str, Any] = field(repr=False)
    meaning: str = field(repr=False)
    default: Any = None
    required: bool = False
    is_of_version: bool = False


FIELDS = (
    Field(
        "job.program",
        {"type": "string", "pattern": "^/", "maxLength": 4096},
        "The program: its absolute path in the job manager's pod. Another program has another path, where a rollback finds"
        " the old one, or comes with another `restartNonce`",
        required=True,
        is_of_version=True,
    ),
    Field("job.args", {"type": "array", "items": {"type": "string"}}, "Its arguments", [], is_of_version=True),
    Field(
        "job.parallelism",
        _PARALLELISM,
        "The number of subtasks; where it is missing `parallelism.default`",
        is_of_version=True,
    ),
    Field(
        "job.state",
        {"type": "string", "enum": [one.value for one in DesiredState]},
        "`suspended` stops the job as `upgradeMode` says, `running` goes on from there",
        DesiredState.RUNNING.value,
    ),
    Field(
        "job.upgradeMode",
        {"type": "string", "enum": [one.value for one in UpgradeMode]},
        "What the next version starts from: a `savepoint` that the last one is stopped with, its `last-state`"
        " (the latest checkpoint), or nothing (`stateless`)",
        UpgradeMode.SAVEPOINT.value,
    ),
    Field(
        "job.initialSavepointPath",
        {"type": "string", "minLength": 1, "maxLength": 4096},
        "What the first job of the resource starts from",
    ),
    Field(
        "job.allowNonRestoredState",
        {"type": "boolean"},
        "Whether state that no operator takes is left out, as by `-n`",
        False,
    ),
    Field(
        "job.savepointTriggerNonce",
        {"type": "integer", "minimum": 0},
        "Another number asks for a savepoint",
        0,
    ),
    Field("restartNonce", {"type": "integer", "minimum": 0}, "Another number is another version", 0, is_of_version=True),
    Field(
        "flinkConfiguration",
        _TEXTS,
        "Options, as by `-D`, above those of the chart's `flink-conf.toml`",
        {},
        is_of_version=True,
    ),
    Field(
        "upgrade.strategy",
        {"type": "string", "enum": ["replace", BLUE_GREEN]},
        f"`replace` stops the old version first. With `{BLUE_GREEN}` the new one is a fork from a savepoint of the old one,"
        " which runs beside it until it has completed a checkpoint: what both write to must bear that",
        "replace",
    ),
    Field(
        "upgrade.readinessTimeout",
        _DURATION_SCHEMA,
        "How long a new version may take to be RUNNING with a completed checkpoint",
        "5 min",
    ),
    Field("upgrade.rollback", {"type": "boolean"}, "Whether the version before comes back where it takes longer", True),
    Field(
        "savepointHistory.maxCount",
        {"type": "integer", "minimum": 1},
        "How many savepoints are kept; those that a job or a rollback may need stay besides",
        10,
    ),
    Field("savepointHistory.maxAge", _DURATION_SCHEMA, "How old they may get; the last one stays", "7 d"),
)
_OF_STATUS: dict[str, Any] = {
    "observedGeneration": {"type": "integer"},
    "lifecycleState": {"type": "string", "enum": [one.value for one in LifecycleState]},
    "error": {"type": "string"},
    "jobStatus": {
        "type": "object",
        "properties": {
            name: {"type": "string"}
            for name in ("jobId", "jobName", "state", "startedFrom", "latestCheckpoint", "beside", "nextStart")
        },
    },
    "savepoints": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "takenAt": {"type": "string", "format": "date-time"}},
        },
    },
    "conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer"},
            },
        },
    },
    "memory": {"type": "string", "description": "What the operator remembers, with version and checksum: for it alone."},
}


def read_spec(body: Mapping[str, Any]) -> Spec:
    """Return what a resource asks for.

    Args:
        body: The resource, as the API server has it.

    Raises:
        SpecError: A field is missing, unknown, or has a value that it can't have.
    """
    given = body.get("spec") or {}
    _check(_spec_schema(), given, "spec")
    values = {one.path: _at(given, one.path, one.default) for one in FIELDS}
    # without defaults: a field that a later operator knows makes no new version of what is there
    version = {one.path: values[one.path] for one in FIELDS if one.is_of_version and values[one.path] != one.default}
    fingerprint = hashlib.sha256(json.dumps(version, sort_keys=True).encode()).hexdigest()
    submission = {**version, "job.allowNonRestoredState": values["job.allowNonRestoredState"]}
    return Spec(
        version=Version(fingerprint, json.dumps(submission, sort_keys=True)),
        state=DesiredState(values["job.state"]),
        upgrade_mode=UpgradeMode(values["job.upgradeMode"]),
        initial_savepoint_path=values["job.initialSavepointPath"],
        readiness_timeout_s=_seconds(values, "upgrade.readinessTimeout"),
        rollback=values["upgrade.rollback"],
        blue_green=values["upgrade.strategy"] == BLUE_GREEN,
        savepoint_trigger_nonce=values["job.savepointTriggerNonce"],
        history_max_count=values["savepointHistory.maxCount"],
        history_max_age_s=_seconds(values, "savepointHistory.maxAge"),
        deleted=is_deleted(body),
    )


def is_deleted(body: Mapping[str, Any]) -> bool:
    """Return whether a resource is to go."""
    return "deletionTimestamp" in body["metadata"]


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition."""
    schema = {
        "type": "object",
        "description": "A job that pystate's operator keeps as it is described here.",
        "required": ["spec"],
        "properties": {"spec": _spec_schema(), "status": {"type": "object", "properties": _OF_STATUS}},
    }
    columns = [
        {"name": "Lifecycle", "type": "string", "jsonPath": ".status.lifecycleState"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Job", "type": "string", "jsonPath": ".status.jobStatus.jobId"},
        {"name": "State", "type": "string", "jsonPath": ".status.jobStatus.state"},
        {"name": "Error", "type": "string", "jsonPath": ".status.error", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": "pystatejob",
                "shortNames": ["psj"],
            },
            "versions": [
                {
                    "name": API_VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


def table() -> Iterator[str]:
    """Yield the lines of the table of fields for the docs."""
    yield "| field of `spec` | default | |"
    yield "|---|---|---|"
    for one in FIELDS:
        default = "must be there" if one.required else "" if one.default in (None, [], {}) else f"`{_word(one.default)}`"
        yield f"| `{one.path}` | {default} | {one.meaning} |"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _spec_schema() -> dict[str, Any]:
    root: dict[str, Any] = {"type": "object", "properties": {}}
    for one in FIELDS:
        *above, name = one.path.split(".")
        place = root
        for part in above:
            if one.required and part not in place.setdefault("required", []):
                place["required"].append(part)
            place = place["properties"].setdefault(part, {"type": "object", "properties": {}})
        if one.required:
            place.setdefault("required", []).append(name)
        default = {} if one.default is None else {"default": one.default}
        place["properties"][name] = {**one.schema, "description": one.meaning.replace("`", ""), **default}
    return root


def _at(given: Mapping[str, Any], path: str, default: Any) -> Any:
    value: Any = given
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return default if value is None else value


def _seconds(values: Mapping[str, Any], path: str) -> float:
    try:
        return _DURATION.parse(values[path]) / 1000
    except ValueError as error:
        what = f"is {values[path]!r}: {error}; it must be {_DURATION.allowed}"
        raise _wrong("spec." + path, what) from error


_KINDS: dict[str, Any] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": Mapping}


def _check(schema: Mapping[str, Any], value: Any, path: str) -> None:
    """Check a value as the API server does that knows the definition."""
    kind, kinds = schema["type"], _KINDS[schema["type"]]
    if not isinstance(value, kinds) or (kind == "integer" and isinstance(value, bool)):
        raise _wrong(path, f"is {value!r}, and must be of type {kind}")
    if value not in schema.get("enum", [value]):
        raise _wrong(path, f"is {value!r}, and must be one of {', '.join(schema['enum'])}")
    if kind == "integer" and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise _wrong(path, f"is {value}, and must be from {schema['minimum']} to {schema.get('maximum', 'any number')}")
    if schema.get("pattern") == "^/" and not value.startswith("/"):
        raise _wrong(path, f"is {value!r}, and must be an absolute path in the job manager's pod")
    if kind == "array":
        for number, one in enumerate(value):
            _check(schema["items"], one, f"{path}[{number}]")
    if kind == "object":
        known = schema.get("properties")
        for missing in (name for name in schema.get("required", ()) if name not in value):
            what = "is missing"
            raise _wrong(".".join((path, missing)), what)
        for name, one in value.items():
            inner = schema.get("additionalProperties") if known is None else known.get(name)
            if inner is None:
                what = f"is not known; there are {', '.join(known or ())}"
                raise _wrong(".".join((path, name)), what)
            _check(inner, one, f"{path}.{name}")


def _wrong(path: str, what: str) -> SpecError:
    message = f"{path} {what}."
    return SpecError(message, where=path, hint="kubectl explain pystatejob.spec --recursive")


def main(file: Path) -> None:
    """Write the definition as YAML."""
    import yaml  # type: ignore[import-untyped]

    said = "# Written by `make crd` from pystate_operator/custom_resource.py.\n"
    file.write_text(said + yaml.safe_dump(definition(), sort_keys=False, width=120), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
