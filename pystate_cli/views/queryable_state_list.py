"""The queryable states of a job."""

from __future__ import annotations

from pystate.runtime.rest.query_messages import QueryableStateInfo
from pystate_cli.tables.column import Column
from pystate_cli.tables.table_spec import TableSpec


def _type(state: QueryableStateInfo) -> str:
    return state.type if state.map_key_type is None else f"{state.map_key_type} to {state.type}"


STATES: TableSpec[QueryableStateInfo] = TableSpec(
    columns=(
        Column("name", lambda state: state.name, heading="Name", plain="name"),
        Column("kind", lambda state: state.kind, heading="Kind", plain="kind"),
        Column("key_type", lambda state: state.key_type, heading="Keys", plain="keys"),
        Column("type", _type, heading="Values", plain="values"),
        Column("namespace", lambda state: state.namespace, heading="Namespace", plain="namespace", priority=1),
        Column("uid", lambda state: state.uid, heading="Operator", plain="operator", priority=2),
    )
)
"""What a terminal and a pipe show of each."""
