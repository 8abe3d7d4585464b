"""The interface between a job and the platform where its slots run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pystate.runtime.slot.process import SlotDescription
from pystate.runtime.slot.slot_engine import SlotEngineFactory
from pystate.runtime.spark.applications.lost_slot import SlotPlace
from pystate.runtime.spark.applications.required_cores import RequiredCores


class SlotAllocation(Protocol):
    """The slots of one attempt, as processes of the platform."""

    def start(self) -> None:
        """Start the slots; each registers by itself."""

    def place_of(self, slot: int, patience_s: float) -> SlotPlace | None:
        """Return where a slot ran and why it is gone; None if unknown.

        Args:
            slot: Its number.
            patience_s: How long to wait for the information.
        """

    def cancel(self, timeout_s: float) -> bool:
        """Kill the slots if they haven't ended within `timeout_s`; return whether they ended by themselves."""


class ResourceWatch(Protocol):
    """Checks whether there are resources for slots, and reports after some seconds why there aren't."""

    def wait(self, given_up: Callable[[], bool]) -> None:
        """Wait until there are enough resources, or the wait is given up.

        Raises:
            PystateError: There will never be enough, or there weren't in time.
        """

    def enough(self) -> bool:
        """Return whether there are enough resources.

        Raises:
            PystateError: There will never be enough, or there weren't in time.
        """


class ResourceManager(Protocol):
    """Runs slots on a platform.

    Attributes:
        application_id: The id of the application on the platform.
        version: The version of the platform.
        one_machine: Whether they run on this machine.
    """

    application_id: str
    version: str
    one_machine: bool

    @property
    def host(self) -> str:
        """The address at which slots reach this driver.

        Raises:
            ConfigurationError: There is none.
        """

    def check_session(self) -> None:
        """Reject settings under which state would be lost or doubled.

        Raises:
            ConfigurationError: A setting is rejected.
        """

    def notices(self, *, real_time: bool, encrypted: bool) -> list[str]:
        """Return notices about the access of others to the platform.

        Args:
            real_time: Whether the job runs on the real-time engine.
            encrypted: Whether what goes between machines must be encrypted.

        Raises:
            ConfigurationError: It must, and the platform doesn't.
        """

    def end_earlier(self, say: Callable[[str], object]) -> None:
        """End what earlier drivers of the job have left on the platform; it may hold what this one needs.

        Args:
            say: Is called with sentences for users: what was ended, and what can't be.
        """

    def check_slots(
        self,
        required: RequiredCores,
        modules: Sequence[str],
        timeout_s: float,
        *,
        restart: bool,
        say: Callable[[str], object],
    ) -> None:
        """Reject a job that could never run.

        Args:
            required: What its slots and its engine need.
            modules: The modules that its processes import.
            timeout_s: How long to wait for resources.
            restart: Whether the job has run before.
            say: Is called with sentences for users: what is waited for.

        Raises:
            PystateError: There will never be enough resources, or a module is missing.
        """

    def watch(
        self, required: RequiredCores, timeout_s: float, *, restart: bool, say: Callable[[str], object]
    ) -> ResourceWatch | None:
        """Return the watch over the resources of an attempt; None if they never change."""

    def allocate(
        self,
        description: SlotDescription,
        engine: SlotEngineFactory,
        count: int,
        on_end: Callable[[str | None], None],
    ) -> SlotAllocation:
        """Return slots to be started.

        Args:
            description: The description that each slot is started with.
            engine: The factory of the engine's part in the slot.
            count: The number of slots.
            on_end: Called from another thread when they have ended, with the reason; None if they ended normally.
        """

    def lack(self, tasks: int) -> str | None:
        """Return why that many slots can't run at the same time; None if they can."""

    def loss(self) -> str | None:
        """Return how the platform was lost, with all its slots, as the end of a sentence; None if it wasn't."""
