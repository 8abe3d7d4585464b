"""The queryable states of a backend."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.errors import StateDeclarationError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.state import StateDescriptor
from pystate.core.api.state_ttl import StateTtlConfig
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.keys.namespaces import NamespaceSerializer


@dataclass(frozen=True)
class QueryableStateInfo:
    """A queryable state.

    Attributes:
        state_name: Its name in the operator.
        schema: The schema of its bytes.
        ttl_millis: The time without an access after which a value is hidden; None for never.
    """

    state_name: str
    schema: StateSchema
    ttl_millis: int | None = None

    @staticmethod
    def of(
        descriptor: StateDescriptor, namespaces: NamespaceSerializer, key_type: TypeInformation | None
    ) -> QueryableStateInfo:
        """Return the queryable state declared by a descriptor.

        Raises:
            StateDeclarationError: Its values, or the keys, are pickled: reading them would execute code.
        """
        types = (key_type, descriptor.type_info, getattr(descriptor, "key_type_info", None))
        if any(one is not None and _is_pickled(one) for one in types):
            message = f"State {descriptor.name!r} can't be queryable: it holds pickled values, which don't travel."
            raise StateDeclarationError(message, hint="declare another type, or don't call set_queryable")
        schema, config = StateSchema.of(descriptor, namespaces), descriptor.ttl_config
        hides = config is not None and config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
        millis = config.get_ttl().to_milliseconds() if config is not None and hides else None
        return QueryableStateInfo(descriptor.name, schema, millis)


def _is_pickled(type_info: TypeInformation) -> bool:
    return type_info.kind is TypeKind.PICKLED_BYTE_ARRAY or any(map(_is_pickled, type_info.elements))
