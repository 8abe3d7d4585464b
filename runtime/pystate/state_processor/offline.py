"""The runtime for functions that read or write state without a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from pystate.common.errors import StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.type_info import TypeInformation
from pystate.common.user_code.program_classes import ProgramClasses
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import State, StateDescriptor
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.slot.operators.contexts import SubtaskRuntimeContext

_BACKEND = "hashmap"


class OfflineRuntimeContext(SubtaskRuntimeContext):
    """The runtime context of a function without a job; it records the states that the function declares.

    Args:
        uid: The uid of the operator.
        function: The function.
        subtask: The index of the subtask, and their number.
        max_parallelism: The number of key groups.
        backend: The backend of keyed state; None for none.

    Attributes:
        states: The declared states by name.
    """

    def __init__(
        self, uid: str, function: Any, subtask: tuple[int, int], max_parallelism: int, backend: KeyedStateBackend | None
    ) -> None:
        index, parallelism = subtask
        task = TaskSpec(uid, uid, "0" * 32, parallelism, max_parallelism, [])
        environment = JobEnvironment("0" * 32, "state processor", 0, {}, _BACKEND, 0, "")
        super().__init__(OperatorSpec(uid, uid, OperatorKind.PROCESS, function), task, index, environment, backend)
        self.states: dict[str, State] = {}
        self._uid = uid
        self._sealed = False

    def seal(self) -> None:
        """Reject further declarations of states."""
        self._sealed = True

    def _keyed_state(self, descriptor: StateDescriptor, wanted: type[StateDescriptor]) -> State:
        if self._sealed and descriptor.name not in self.states:
            message = f"State {descriptor.name!r} is declared after open(): it must be known before the first element."
            raise StateError(message, where=f"uid {self._uid}", hint="declare all states in open()")
        state = super()._keyed_state(descriptor, wanted)
        self.states[descriptor.name] = state
        return state


class OfflineKeyedState:
    """A function with keyed state, opened with an in-memory backend.

    Args:
        uid: The uid of the operator, for errors.
        function: A private copy of the function, with `open` and `close`.
        key_type: The type of the keys, None for untyped.
        key_groups: The key groups of the backend.
        max_parallelism: The number of key groups.
        subtask: The index of the subtask, and their number.
        sources: Canonical files to start from.

    Attributes:
        backend: The backend.
        context: The runtime context.
    """

    def __init__(
        self,
        uid: str,
        function: Any,
        key_type: TypeInformation | None,
        key_groups: KeyGroupRange,
        max_parallelism: int,
        subtask: tuple[int, int] = (0, 1),
        sources: Iterable[BinaryIO] = (),
    ) -> None:
        self.backend = create_state_backend(
            _BACKEND, key_codec=KeyCodec(key_type), key_group_range=key_groups, max_parallelism=max_parallelism
        )
        self._function = function
        self._opened = False
        try:
            self.backend.restore(sources)
            self.context = OfflineRuntimeContext(uid, function, subtask, max_parallelism, self.backend)
            function.open(self.context)
            self._opened = True
            self.context.seal()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> OfflineKeyedState:
        """Return the opened function."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close function and backend."""
        self.close()

    def close(self) -> None:
        """Close function and backend."""
        try:
            if self._opened:
                self._function.close()
        finally:
            self.backend.close()


def results_of(results: Any) -> Iterator[Any]:
    """Return the results that a function returned or yields; nothing for None."""
    return iter(()) if results is None else iter(results)


def pickled(function: Any) -> bytes:
    """Return a function object as bytes for Spark's tasks."""
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(_Travelling(function))  # type: ignore[no-untyped-call]
    return data


def unpickled(data: bytes) -> Any:
    """Return a copy of a function object."""
    from pyspark import cloudpickle

    return cloudpickle.loads(data)


class _Travelling:
    """A function on its way to Spark's tasks, with the classes of the program's file, whose objects may be in the state."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __reduce__(self) -> tuple[Any, ...]:
        """Be the function, where it is read."""
        return _arrived, (ProgramClasses.of_this_program(), self._function)


def _arrived(classes: ProgramClasses, function: Any) -> Any:
    classes.install()
    return function
