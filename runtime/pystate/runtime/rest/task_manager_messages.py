"""Slots. A job's driver with its slots is what Flink calls a task manager."""

from __future__ import annotations

from pystate.common.text.plain_data import entry
from pystate.runtime.rest.message import EmptyResponseBody, HexId, RestMessage


class ResourceProfileInfo(RestMessage):
    """What slots have. Memory isn't divided among them, so all of it is 0.

    Attributes:
        cores: One per slot.
    """

    cores: float = entry("cpuCores")
    task_heap_memory: int = entry("taskHeapMemory", default=0)
    task_off_heap_memory: int = entry("taskOffHeapMemory", default=0)
    managed_memory: int = entry("managedMemory", default=0)
    network_memory: int = entry("networkMemory", default=0)
    extended_resources: EmptyResponseBody = entry("extendedResources", default=EmptyResponseBody())


class HardwareDescription(RestMessage):
    """The machine of the job manager.

    Attributes:
        cores: Its cores.
        physical_memory: Bytes.
        free_memory: Bytes that nobody uses.
        managed_memory: 0.
    """

    cores: int = entry("cpuCores")
    physical_memory: int = entry("physicalMemory")
    free_memory: int = entry("freeMemory")
    managed_memory: int = entry("managedMemory", default=0)


class SlotInfo(RestMessage):
    """A slot.

    Attributes:
        job_id: The job that has it.
        resource: Its share.
    """

    job_id: HexId = entry("jobId")
    resource: ResourceProfileInfo


class TaskManagerInfo(RestMessage):
    """A driver with its slots.

    Attributes:
        id: The id of its job.
        path: Its process.
        data_port: 0.
        jmx_port: -1.
        time_since_last_heartbeat: When it was last known to live.
        slots_number: Its slots.
        free_slots: 0.
        total_resource: What the slots have.
        free_resource: Nothing.
        hardware: The machine.
        blocked: False.
    """

    id: HexId
    path: str
    data_port: int = entry("dataPort", default=0)
    jmx_port: int = entry("jmxPort", default=-1)
    time_since_last_heartbeat: int = entry("timeSinceLastHeartbeat")
    slots_number: int = entry("slotsNumber")
    free_slots: int = entry("freeSlots", default=0)
    total_resource: ResourceProfileInfo = entry("totalResource")
    free_resource: ResourceProfileInfo = entry("freeResource")
    hardware: HardwareDescription
    blocked: bool = False


class TaskManagersInfo(RestMessage):
    """The drivers that run."""

    taskmanagers: list[TaskManagerInfo]


class TaskManagerDetailsInfo(TaskManagerInfo):
    """A driver, slot by slot.

    Attributes:
        allocated_slots: Its slots.
    """

    allocated_slots: list[SlotInfo] = entry("allocatedSlots")
