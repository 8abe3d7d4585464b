"""Checkpoints of a job of the real-time engine in all runs: real subtasks, the real coordinator, and a network between them.

The search decides when a source reads on, when a frame, a barrier for a source or an acknowledgement arrives, which one is
lost, when checkpoints are triggered and expire, and when all subtasks die. What they do then is theirs.

    coordinator -- barriers --> sources == frames in channels ==> subtasks -- acknowledgements --> coordinator
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pystate.runtime.checkpoint.pending_checkpoint import AckResult
from tests.model.learned import Learned
from tests.model.real_coordinator import Part, RealCoordinator
from tests.model.real_subtask import IGNORED, PER_SOURCE, Graph, RealSubtask
from tests.model.search import Explored, explore

State = Any
"""What a part holds: what the subtask has seen, how far it has read, and what was under way to it."""


class Budget(NamedTuple):
    """How often something may happen yet."""

    triggers: int = 1
    failures: int = 0
    losses: int = 0
    expiries: int = 0

    def less(self, name: str) -> Budget:
        """Return what is left behind one."""
        return self._replace(**{name: getattr(self, name) - 1})


class World(NamedTuple):
    """A state of the job.

    Attributes:
        attempt: Which attempt runs.
        subtasks: The states of the subtasks, by number of their task.
        channels: The frames that are under way, by edge.
        barriers: Those that are under way to sources.
        coordinator: Its state.
        acknowledgements: Those that are under way, of checkpoints that are.
        over: Checkpoints that are so no more, with the attempts that they were of. Acknowledgements of them may come at any
            time, whether they were sent or not: so it makes no difference which were, as long as they change nothing.
        parts: What was put into the checkpoints that can complete, or be gone back to.
        taken: The last checkpoint that each subtask has taken its part of.
        triggered: How many checkpoints were triggered.
        left: What may happen yet.
        wrong: A rule that the last step has broken.
    """

    attempt: int
    subtasks: tuple[int, ...]
    channels: tuple[tuple[bytes, ...], ...]
    barriers: tuple[tuple[Any, ...], ...]
    coordinator: int
    acknowledgements: frozenset[Part]
    over: frozenset[tuple[int, int]]
    parts: frozenset[tuple[Part, State]]
    taken: tuple[int, ...]
    triggered: int
    left: Budget
    wrong: str | None = None


@dataclass
class Protocol:
    """A job, and what may happen to it.

    Attributes:
        graph: The job.
        budget: How often.
        exactly_once: The checkpointing mode.
        stepwise: Whether time may pass between an arrival at a subtask and what it does about that.
        concurrent: How many checkpoints may be under way at once.
        merges: Whether equal states of objects count as one, see `Learned`.
    """

    graph: Graph
    budget: Budget
    exactly_once: bool = True
    stepwise: bool = False
    concurrent: int = 1
    merges: bool = True

    def __post_init__(self) -> None:
        graph = self.graph
        self.tasks = graph.tasks
        self._sources = dict(graph.records)
        self._subtasks = [
            Learned(lambda uid=uid: RealSubtask(graph, uid, exactly_once=self.exactly_once), IGNORED, merges=self.merges)
            for uid in self.tasks
        ]
        self._coordinator = Learned(lambda: RealCoordinator(graph, self.concurrent), IGNORED, merges=self.merges)
        self._late: dict[tuple[int, int, frozenset[tuple[int, int]]], list[Part]] = {}

    def run(self) -> Explored[World]:
        """Visit every state.

        Raises:
            FaultFoundError: One breaks a rule.
        """
        return explore(self.begin(), self.steps, lambda world: world.wrong, self.wrong_at_end)

    def begin(self) -> World:
        """Return the first state."""
        nothing: tuple[tuple[Any, ...], ...] = ((),) * len(self.graph.edges)
        barriers: tuple[tuple[Any, ...], ...] = ((),) * len(self._sources)
        none: frozenset[Any] = frozenset()
        taken = (0,) * len(self.tasks)
        world = World(0, (), nothing, barriers, self._coordinator.start, none, none, none, taken, 0, self.budget)
        return self._opened(world, {})

    # -- what can happen

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield all that can happen next; time goes on where nothing else does."""
        steps = list(self._steps(world))
        if not steps and self._under_way(world) and world.left.losses < self.budget.losses:
            steps = [("checkpoints expire at last", self._expire(world))]
        yield from steps

    def _steps(self, world: World) -> Iterator[tuple[str, World]]:
        for number, uid in enumerate(self.tasks):
            shown = self._subtasks[number].shows(world.subtasks[number])
            if shown.is_roused or shown.goes_on:
                does = "goes on" if shown.is_roused else "reads on" if uid in self._sources else "hands on"
                yield f"{uid} {does}", self._subtask(world, number, ("step",))
        for number, (source, target) in enumerate(self.graph.edges):
            if world.channels[number]:
                yield f"a frame comes from {source} to {target}", self._deliver(world, number)
        for number, waiting in enumerate(world.barriers):
            if waiting:
                told = world._replace(barriers=_put(world.barriers, number, waiting[1:]))
                yield f"a barrier is asked of {self.tasks[number]}", self._subtask(told, number, waiting[0])
        for part in sorted(world.acknowledgements):
            arrived = world._replace(acknowledgements=world.acknowledgements - {part})
            yield f"the acknowledgement of {_name(part)} arrives", self._ask(arrived, ("acknowledge", part))
            if world.left.losses:
                yield f"the acknowledgement of {_name(part)} is lost", arrived._replace(left=world.left.less("losses"))
        for part in self._late_parts(world):
            yield f"the acknowledgement of {_name(part)} comes late", self._ask(world, ("acknowledge", part))
        yield from self._happens(world)

    def _late_parts(self, world: World) -> list[Part]:
        """Return what would change something if it were acknowledged, though its checkpoint isn't under way any more."""
        key = world.coordinator, world.attempt, world.over
        if key not in self._late:
            parts = [(*one, uid) for one in sorted(world.over) for uid in self.tasks]
            self._late[key] = [part for part in parts if self._is_counted(world, part)]
        return self._late[key]

    def _is_counted(self, world: World, part: Part) -> bool:
        after = self._ask(world, ("acknowledge", part))
        return after.wrong is not None or not self._coordinator.is_same(after.coordinator, world.coordinator)

    def _happens(self, world: World) -> Iterator[tuple[str, World]]:
        left = world.left
        if left.triggers:
            triggered = world._replace(left=left.less("triggers"), triggered=world.triggered + 1)
            yield "a checkpoint is triggered", self._ask(triggered, ("trigger",))
        if left.expiries and self._under_way(world):
            yield "checkpoints expire", self._expire(world._replace(left=left.less("expiries")))
        if left.failures:
            yield "the attempt fails", self._restart(world._replace(left=left.less("failures")))

    # -- how

    def _deliver(self, world: World, number: int) -> World:
        frame, *rest = world.channels[number]
        _, target = self.graph.edges[number]
        world = world._replace(channels=_put(world.channels, number, tuple(rest)))
        return self._subtask(world, self.tasks.index(target), ("frame", frame))

    def _subtask(self, world: World, number: int, stimulus: Any) -> World:
        """Give a subtask something, and unless it is `stepwise`, let it do what follows at once."""
        machine = self._subtasks[number]
        state, out = machine.apply(world.subtasks[number], stimulus)
        shown = machine.shows(state)
        is_end = not self.graph.downstream(self.tasks[number])
        while not self.stepwise and (shown.is_roused or (is_end and shown.goes_on)):
            state, more = machine.apply(state, ("step",))
            out, shown = (*out, *more), machine.shows(state)
        world = world._replace(subtasks=_put(world.subtasks, number, state))
        for one in out:
            world = self._came_out(world, number, one)
        return world

    def _came_out(self, world: World, number: int, one: Any) -> World:
        uid = self.tasks[number]
        if one[0] == "sent":
            _, (target, _), frame = one
            edge = self.graph.edges.index((uid, self.tasks[target]))
            return world._replace(channels=_put(world.channels, edge, (*world.channels[edge], frame)))
        _, checkpoint_id, state = one
        before = world.taken[number]
        if checkpoint_id <= before or any(before < one < checkpoint_id for one in self._under_way(world)):
            world = world._replace(wrong=f"{uid} takes checkpoint {checkpoint_id} behind {before}")
        world = world._replace(taken=_put(world.taken, number, checkpoint_id))
        if checkpoint_id not in self._under_way(world):
            return world
        part = world.attempt, checkpoint_id, uid
        return world._replace(acknowledgements=world.acknowledgements | {part}, parts=world.parts | {(part, state)})

    def _ask(self, world: World, stimulus: Any) -> World:
        """Have the coordinator do something."""
        state, out = self._coordinator.apply(world.coordinator, stimulus)
        world = self._told(world, state)
        *under_way, latest = self._coordinator.shows(state)
        if any(one < latest for one in under_way):
            return world._replace(wrong=f"{under_way} are under way, and checkpoint {latest} is complete")
        for one in out:
            match one:
                case ("barrier", _):
                    world = world._replace(barriers=tuple((*waiting, one) for waiting in world.barriers))
                case ("completed", checkpoint_id, parts):
                    world = world._replace(wrong=self._wrong_cut(world, checkpoint_id, parts))
                case AckResult.SUCCESS if stimulus[1][0] != world.attempt:
                    world = world._replace(wrong=world.wrong or "an acknowledgement of an older attempt counts")
                case ("failed",):
                    world = world._replace(wrong="failed checkpoints end the attempt")
        keep = {*self._coordinator.shows(state)}
        return world._replace(parts=frozenset(one for one in world.parts if one[0][1] in keep))

    def _told(self, world: World, coordinator: int) -> World:
        """Take over a state of the coordinator, and put all acknowledgements away whose checkpoints have ended with it."""
        before, under_way = self._under_way(world), self._coordinator.shows(coordinator)[:-1]
        return world._replace(
            coordinator=coordinator,
            acknowledgements=frozenset(part for part in world.acknowledgements if part[1] in under_way),
            over=world.over | {(world.attempt, one) for one in before if one not in under_way},
        )

    def _expire(self, world: World) -> World:
        before = self._under_way(world)
        world = self._ask(world, ("expire",))
        left = set(before) & set(self._under_way(world))
        return world._replace(wrong=world.wrong or f"the checkpoints {left} don't expire") if left else world

    def _restart(self, world: World) -> World:
        """Let all subtasks die, and start over from what the coordinator says."""
        state, out = self._coordinator.apply(world.coordinator, ("restart",))
        ((_, checkpoint_id, parts),) = out
        states = dict(world.parts)
        restored = {part[2]: states[part] for part in parts}
        taken = (world.triggered,) * len(self.tasks)
        world = self._told(world, state)
        world = world._replace(
            attempt=world.attempt + 1,
            acknowledgements=frozenset(),
            over=world.over | {(world.attempt, one) for one in self._under_way(world)},
            channels=((),) * len(world.channels),
            barriers=((),) * len(world.barriers),
            parts=frozenset(one for one in world.parts if one[0][1] == checkpoint_id),
            taken=taken,
        )
        return self._opened(world, restored)

    def _opened(self, world: World, restored: dict[str, State]) -> World:
        opened = [
            machine.apply(machine.start, ("open", restored.get(uid)))
            for uid, machine in zip(self.tasks, self._subtasks, strict=True)
        ]
        return world._replace(subtasks=tuple(state for state, _ in opened))

    # -- what must hold

    def _under_way(self, world: World) -> tuple[int, ...]:
        return self._coordinator.shows(world.coordinator)[:-1]

    def _wrong_cut(self, world: World, checkpoint_id: int, parts: tuple[Part, ...]) -> str | None:
        """Say why a completed checkpoint is no consistent cut."""
        expected = sorted((world.attempt, checkpoint_id, uid) for uid in self.tasks)
        if sorted(parts) != expected:
            return f"checkpoint {checkpoint_id} completes with {parts}"
        held = dict(world.parts)
        return self._wrong_flow({part[2]: held[part] for part in parts}, f"checkpoint {checkpoint_id}")

    def _wrong_flow(self, states: dict[str, State], what: str) -> str | None:
        """Compare what each task has handed on with what those behind it have seen of that."""
        for uid in self.tasks:
            if uid in self._sources:
                continue
            sent = Counter(value for sender in self.graph.upstream(uid) for value in self._sent(sender, states[sender]))
            seen, _, under_way = states[uid]
            got = Counter([*seen, *under_way])
            if sent - got:
                return f"{what}: {sorted((sent - got).elements())} is lost in front of {uid}"
            if self.exactly_once and got - sent:
                return f"{what}: {sorted((got - sent).elements())} is seen by {uid}, and comes again"
        return None

    def _sent(self, uid: str, state: State) -> list[int]:
        seen, position, _ = state
        return list(self.graph.values(uid))[:position] if uid in self._sources else list(seen)

    def wrong_at_end(self, world: World) -> str | None:
        """Say what is wrong with a job that has come to its end."""
        states = {uid: machine.apply(state, ("look",))[1][0] for uid, machine, state in self._machines(world)}
        for uid, count in self._sources.items():
            if states[uid][1] != count:
                return f"{uid} has read {states[uid][1]} of {count} records"
        if self._under_way(world):
            return f"the checkpoints {self._under_way(world)} never end"
        if set(world.taken) != {world.triggered}:
            return f"barriers have not come through: {world.taken} of {world.triggered}"
        return self._wrong_flow(states, "at the end")

    def doubled(self, world: World) -> str | None:
        """Say which records tasks have seen more often than there are ways to them, which `AT_LEAST_ONCE` allows."""
        states = {uid: machine.apply(state, ("look",))[1][0] for uid, machine, state in self._machines(world)}
        ways = self._ways()
        for uid in self.tasks:
            seen = Counter(states[uid][0])
            often = [value for value, count in seen.items() if count > ways[uid][value // PER_SOURCE - 1]]
            if often:
                return f"{uid} has seen {often} again"
        return None

    def _ways(self) -> dict[str, list[int]]:
        """Return how many ways there are to each task, by the number of the source."""
        ways: dict[str, list[int]] = {}
        for number, uid in enumerate(self.tasks):
            before = [ways[sender] for sender in self.graph.upstream(uid)]
            own = [int(number == source) for source in range(len(self._sources))]
            ways[uid] = [sum(several) for several in zip(own, *before, strict=True)]
        return ways

    def _machines(self, world: World) -> Iterator[tuple[str, Learned, int]]:
        yield from zip(self.tasks, self._subtasks, world.subtasks, strict=True)


def _put(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _name(part: Part) -> str:
    attempt, checkpoint_id, uid = part
    return f"{uid} of checkpoint {checkpoint_id} in attempt {attempt}"
