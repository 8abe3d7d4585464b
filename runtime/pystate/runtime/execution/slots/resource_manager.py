"""The seam between a job and where its slots run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pystate.runtime.slot.process import SlotDescription
from pystate.runtime.slot.slot_engine import SlotEngineFactory
from pystate.runtime.spark.applications.lost_slot import SlotPlace
from pystate.runtime.spark.applications.required_cores import RequiredCores


class SlotAllocation(Protocol):
    """The slots of one attempt, as whoever runs their processes sees them."""

    def start(self) -> None:
        """Start them; each registers by itself."""

    def place_of(self, slot: int, patience_s: float) -> SlotPlace | None:
        """Return where a slot ran and why it is gone; None if unknown.

        Args:
            slot: Its number.
            patience_s: How long the news may take.
        """

    def cancel(self, timeout_s: float) -> bool:
        """End them by force if they haven't ended within `timeout_s`; return whether they ended by themselves."""


class ResourceWatch(Protocol):
    """Looks whether there is room for slots, and tells after seconds why there isn't."""

    def wait(self, given_up: Callable[[], bool]) -> None:
        """Wait until there is, or nobody waits any more.

        Raises:
            PystateError: There will never be, or not in time.
        """

    def enough(self) -> bool:
        """Return whether there is.

        Raises:
            PystateError: There will never be, or not in time.
        """


class ResourceManager(Protocol):
    """Where slots run.

    Attributes:
        application_id: Whose they are there.
        version: Of what runs them.
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
            ConfigurationError: There are such.
        """

    def notices(self, *, real_time: bool) -> list[str]:
        """Return what people should know of who may speak to what runs the slots.

        Args:
            real_time: The job runs on the real-time engine.
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
            modules: What its processes import.
            timeout_s: How long the room for it may take to come.
            restart: Whether the job has run before.
            say: Takes a sentence for people: what is waited for.

        Raises:
            PystateError: There will never be room, or a module isn't there.
        """

    def watch(
        self, required: RequiredCores, timeout_s: float, *, restart: bool, say: Callable[[str], object]
    ) -> ResourceWatch | None:
        """Return what looks after the room for an attempt; None if that doesn't come and go."""

    def allocate(
        self,
        description: SlotDescription,
        engine: SlotEngineFactory,
        count: int,
        on_end: Callable[[str | None], None],
    ) -> SlotAllocation:
        """Return slots to be started.

        Args:
            description: What each is started with.
            engine: Makes what feeds its subtasks.
            count: How many.
            on_end: Called from another thread when they have ended, with the reason; None if they ended well.
        """

    def lack(self, tasks: int) -> str | None:
        """Say what keeps so many slots from running at the same time; None if each has its place."""

    def loss(self) -> str | None:
        """Say how all slots that are and will be are lost, as the end of a sentence; None if they aren't."""
