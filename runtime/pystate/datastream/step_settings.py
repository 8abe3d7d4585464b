"""The settings of one step of a program, common to streams and sinks."""

from __future__ import annotations

from typing import Any, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.key_groups import MAX_PARALLELISM_LIMIT
from pystate.common.text.plain_text import check_text
from pystate.core.api.transformations import Transformation, VirtualTransformation

SelfStep = TypeVar("SelfStep", bound="StepSettings")

_NO_CHAINS = "has no effect: what is chained follows from parallelisms and keys alone"


class StepSettings:
    """The settings of the step of a stream or a sink; each method returns the stream or the sink.

    Args:
        step: The step.
    """

    def __init__(self, step: Transformation) -> None:
        self._transformation = step

    def name(self: SelfStep, name: str) -> SelfStep:
        """Set the name of the step, for display.

        Raises:
            JobGraphError: It isn't a string in valid UTF-8.
        """
        check_text(str(name), "the name of a step", JobGraphError)
        self._transformation.name = name
        return self

    def set_description(self: SelfStep, description: str) -> SelfStep:
        """Set the description of the step, for display in the plan.

        Raises:
            JobGraphError: It isn't a string in valid UTF-8, or the step runs nothing: key_by(), union(), a partitioning.
        """
        self._real_step("takes no description")
        check_text(str(description), "the description of a step", JobGraphError)
        self._transformation.description = description
        return self

    def uid(self: SelfStep, uid: str) -> SelfStep:
        """Set the uid, which identifies the step's state across versions of the job.

        Raises:
            JobGraphError: It isn't a string, or the step has no state: key_by(), union(), a partitioning.
        """
        self._real_step(f"takes no uid ({uid!r})")
        if not uid or not isinstance(uid, str):
            message = f"A uid is a text that is not empty, not {uid!r}."
            raise JobGraphError(message, where=self._transformation.name)
        check_text(uid, "a uid", JobGraphError, self._transformation.name)
        self._transformation.uid = uid
        return self

    def set_uid_hash(self: SelfStep, uid_hash: str) -> SelfStep:
        """Not supported: the hash of a step of a Flink job.

        Raises:
            JobGraphError: Always.
        """
        message = f"set_uid_hash({uid_hash!r}): a state is found by the uid of its step, which has no hash of its own."
        raise JobGraphError(message, where=self._transformation.name, hint='give the step a uid: .uid("...")')

    def set_parallelism(self: SelfStep, parallelism: int) -> SelfStep:
        """Set the number of subtasks of the step.

        For a source it is the maximum number of partitions, for `print()` the number of prefixes, for `for_each_batch()` the
        number of partitions of the DataFrame.

        Raises:
            JobGraphError: It isn't a positive number, the step runs nothing (key_by(), union(), a partitioning), or it has
                been forced to one subtask.
        """
        self._real_step("takes no parallelism")
        if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
            message = f"A parallelism is a number from 1 on, not {parallelism!r}."
            raise JobGraphError(message, where=self._transformation.name)
        if parallelism > 1:
            self._refuse_non_parallel(f"set_parallelism({parallelism})")
        self._transformation.parallelism = parallelism
        return self

    def set_max_parallelism(self: SelfStep, max_parallelism: int) -> SelfStep:
        """Set the number of key groups of the step's state, which is fixed for the lifetime of the state.

        Raises:
            JobGraphError: It is out of range, the step runs nothing (key_by(), union(), a partitioning), or it has been
                forced to one subtask.
        """
        self._real_step("takes no max parallelism")
        if not isinstance(max_parallelism, int) or not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
            message = f"A max parallelism is a number from 1 to {MAX_PARALLELISM_LIMIT}, not {max_parallelism!r}."
            raise JobGraphError(message, where=self._transformation.name)
        if max_parallelism > 1:
            self._refuse_non_parallel(f"set_max_parallelism({max_parallelism})")
        self._transformation.max_parallelism = max_parallelism
        return self

    def force_non_parallel(self: SelfStep) -> SelfStep:
        """Run the step in one subtask, with one key group; other numbers are rejected from now on.

        Raises:
            JobGraphError: The step runs nothing: key_by(), union(), a partitioning.
        """
        self._real_step("is not forced to one subtask")
        step = self._transformation
        step.parallelism = step.max_parallelism = 1
        step.non_parallel = True
        return self

    def start_new_chain(self: SelfStep) -> SelfStep:
        """Has no effect, which the job reports at its start.

        Raises:
            JobGraphError: The step runs nothing: key_by(), union(), a partitioning.
        """
        return self._without_effect("start_new_chain()", _NO_CHAINS)

    def disable_chaining(self: SelfStep) -> SelfStep:
        """Has no effect, which the job reports at its start.

        Raises:
            JobGraphError: The step runs nothing: key_by(), union(), a partitioning.
        """
        return self._without_effect("disable_chaining()", _NO_CHAINS)

    def slot_sharing_group(self: SelfStep, slot_sharing_group: Any) -> SelfStep:
        """Has no effect, which the job reports at its start.

        Raises:
            JobGraphError: The step runs nothing: key_by(), union(), a partitioning.
        """
        return self._without_effect("slot_sharing_group()", "has no effect: a slot runs a subtask of every step")

    def set_buffer_timeout(self: SelfStep, timeout_millis: int) -> SelfStep:
        """Has no effect, which the job reports at its start.

        Raises:
            JobGraphError: The step runs nothing: key_by(), union(), a partitioning.
        """
        return self._without_effect(
            "set_buffer_timeout()", "has no effect: execution.buffer-timeout.interval is that of all steps"
        )

    def _without_effect(self: SelfStep, method: str, why: str) -> SelfStep:
        self._real_step(f"takes no {method}")
        self._transformation.notices.append(f"{method} {why}.")
        return self

    def _real_step(self, what: str) -> None:
        if isinstance(self._transformation, VirtualTransformation):
            message = f"{self._transformation.name} runs nothing of its own, so it {what}."
            raise JobGraphError(message, hint="set it after process(), map() or another step")

    def _refuse_non_parallel(self, method: str) -> None:
        if self._transformation.non_parallel:
            message = f"{method}: force_non_parallel() has fixed the step to one subtask."
            raise JobGraphError(message, where=self._transformation.name, hint="leave one of the two out")
