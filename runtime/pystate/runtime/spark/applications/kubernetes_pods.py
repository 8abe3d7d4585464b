"""What Kubernetes says of the executors of an application: their pods, as its API describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

KUBERNETES = "k8s://"
"""What a master of Kubernetes begins with."""
APPLICATION_LABEL = "spark-app-selector"
"""Spark's label of pods: their application."""
NAME_LABEL = "spark-app-name"
"""Spark's label of pods: the name of their application, which for us is the job's."""
_ENDED = ("Succeeded", "Failed")
_STARTS = ("ContainerCreating", "PodInitializing")
"""What the kubelet calls a container that is on its way."""
_LONGEST = 300


@dataclass(frozen=True)
class ExecutorPod:
    """A pod of an executor.

    Attributes:
        name: The pod's name.
        phase: Pending, Running, Succeeded, Failed or Unknown.
        why: Why it doesn't run, in Kubernetes' words; empty if it says nothing.
        scheduled: Whether it has a node, as far as is known.
        blocked: Whether it stays as it is as long as nothing in the cluster changes.
    """

    name: str
    phase: str
    why: str = ""
    scheduled: bool = False
    blocked: bool = False

    @staticmethod
    def of(pod: Mapping[str, Any]) -> ExecutorPod:
        """Return what is said of a pod, which is its description by the API."""
        status = pod.get("status") or {}
        phase = str(status.get("phase") or "Pending")
        name = str((pod.get("metadata") or {}).get("name") or "?")
        conditions = {one.get("type"): one for one in status.get("conditions") or []}
        place = conditions.get("PodScheduled") or {}
        if place.get("status") == "False":
            return ExecutorPod(name, phase, _words(place), blocked=True)
        states = [one.get("state") or {} for one in status.get("containerStatuses") or []]
        for state in states:
            waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
            if waiting:
                blocked = waiting.get("reason") not in (None, *_STARTS)
                return ExecutorPod(name, phase, _words(waiting), scheduled=True, blocked=blocked)
            if ended and phase in _ENDED:
                why = f"{_words(ended)} (exit code {ended.get('exitCode', '?')})".lstrip()
                return ExecutorPod(name, phase, why, scheduled=True)
        return ExecutorPod(name, phase, _words(status), scheduled=place.get("status") == "True")


@dataclass(frozen=True)
class KubernetesView:
    """What Kubernetes says of the executors of one application.

    Attributes:
        namespace: Where their pods are.
        asked: How many executors the application wants.
        pods: Those that there are.
    """

    namespace: str
    asked: int
    pods: tuple[ExecutorPod, ...]

    def _in(self, *phases: str) -> list[ExecutorPod]:
        return [one for one in self.pods if one.phase in phases]

    def knows(self, application_id: str) -> bool:
        """Return whether an application may still get executors: its driver makes the pods, nobody else knows of it."""
        return True

    def given_to(self, application_id: str) -> int:
        """Return how many pods of executors run or are on their way."""
        return sum(one.phase == "Running" or (one.phase == "Pending" and not one.blocked) for one in self.pods)

    @property
    def is_full(self) -> bool:
        """Whether a pod waits for something that the cluster has not got: a node with room, its image, a volume."""
        return any(one.blocked for one in self._in("Pending"))

    def end(self, application_id: str) -> str:
        """Return what has become of an application, as the end of a sentence."""
        return f"has no executor in the namespace {self.namespace}"

    def lost_sentence(self, application_id: str) -> str:
        """Return the sentence on an application without executors."""
        return f"The application {application_id} {self.end(application_id)}."

    def cores_sentence(self, application_id: str, cores: int) -> str:
        """Return the sentence on the pods that an application has asked for, and why there are no more."""
        if not self.pods:
            made = f"Kubernetes has no pod of {application_id} in the namespace {self.namespace}"
            return f"{made}, where {self.asked} are asked for: the job's log has what refused them (a role, a quota)"
        running = len(self._in("Running"))
        told = [f"Kubernetes runs {running} of {self.asked} pods of {application_id} in the namespace {self.namespace}"]
        told[0] += f" ({cores} cores)"
        for phase in ("Pending", "Failed", "Unknown", "Succeeded"):
            found = self._in(phase)
            if found:
                told.append(f"{phase}: {len(found)}{_because(found)}")
        return "; ".join(told)


def view_of(namespace: str, asked: int, pods: Iterable[Mapping[str, Any]]) -> KubernetesView:
    """Return what is said of pods, which are their descriptions by the API."""
    found = sorted((ExecutorPod.of(pod) for pod in pods), key=lambda one: one.name)
    return KubernetesView(namespace, asked, tuple(found))


def app_name_label(name: str) -> str:
    """Return Spark's label for the name of an application that is letters, digits, spaces and dashes."""
    return name.lower().replace(" ", "-")[:63].rstrip("-")


def _because(pods: list[ExecutorPod]) -> str:
    reasons = list(dict.fromkeys(one.why for one in pods if one.why))
    return f" ({', '.join(reasons)})" if reasons else ""


def _words(said: Mapping[str, Any]) -> str:
    """Return the reason and the message of a state or condition on one line."""
    reason, message = str(said.get("reason") or ""), " ".join(str(said.get("message") or "").split()).rstrip(".")
    text = ": ".join(part for part in (reason, message) if part)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
