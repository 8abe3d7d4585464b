"""Slot resources, for source compatibility; they have no effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["MemorySize", "SlotSharingGroup"]


@dataclass(frozen=True, order=True)
class MemorySize:
    """An amount of memory.

    Attributes:
        bytes_size: In bytes.
    """

    bytes_size: int = 0

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Return an amount in MiB."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """Return the amount in bytes."""
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        """Return the amount in KiB, rounded down."""
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        """Return the amount in MiB, rounded down."""
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        """Return the amount in GiB, rounded down."""
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        """Return the amount in TiB, rounded down."""
        return self.bytes_size >> 40

    def __str__(self) -> str:
        """Return the bytes as text."""
        return f"{self.bytes_size} bytes"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A group of steps that share slots in Flink, with resources. Here a slot runs a subtask of every step.

    Made with `SlotSharingGroup.builder("name")...build()`.
    """

    _name: str
    _cpu_cores: float | None = None
    _memory: dict[str, MemorySize] = field(default_factory=dict, hash=False)
    _external: dict[str, float] = field(default_factory=dict, hash=False)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Return a builder of a group with this name."""
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        """Return the name of the group."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Return the value that was set; None for none."""
        return self._memory.get("managed")

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the value that was set; None for none."""
        return self._memory.get("heap")

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the value that was set; None for none."""
        return self._memory.get("off-heap")

    def get_cpu_cores(self) -> float | None:
        """Return the value that was set; None for none."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Return the values that were set, by name."""
        return dict(self._external)

    class Builder:
        """Builds a group; setters return the builder.

        Args:
            name: The name of the group.
        """

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._memory: dict[str, MemorySize] = {}
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the cores."""
            self._cpu_cores = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the heap."""
            return self._set("heap", task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the heap, in MiB."""
            return self._set("heap", MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the off-heap memory."""
            return self._set("off-heap", task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the off-heap memory, in MiB."""
            return self._set("off-heap", MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the managed memory."""
            return self._set("managed", managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Set the managed memory, in MiB."""
            return self._set("managed", MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Set the amount of an external resource."""
            self._external[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """Return the group."""
            return SlotSharingGroup(self._name, self._cpu_cores, dict(self._memory), dict(self._external))

        def _set(self, kind: str, size: Any) -> SlotSharingGroup.Builder:
            self._memory[kind] = size
            return self
