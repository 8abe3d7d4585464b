"""Steps of a notebook: previewed before a job takes them, and replaced where their cell runs again."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from pystate.core.api.transformations import SourceTransformation, Transformation


def copied_upstream(step: Transformation) -> tuple[Transformation, list[SourceTransformation]]:
    """Return a copy of a step with copies of all that it reads, and the sources among these; the program's graph stays."""
    copies: dict[int, Transformation] = {}

    def copied(one: Transformation) -> Transformation:
        if id(one) not in copies:
            parents = tuple(copied(parent) for parent in one.parents)
            made = copies[id(one)] = copy(one)
            made.parents, made.children, made.detached = parents, [], False
            for parent in parents:
                parent.children.append(made)
        return copies[id(one)]

    end = copied(step)
    sources = [made for made in copies.values() if isinstance(made, SourceTransformation)]
    for source in sources:
        source.follow_timestamps(copies)
    return end, sources


def drop_replaced(sources: Iterable[SourceTransformation]) -> list[Transformation]:
    """Detach the steps of cells of a notebook that were run again since, with all that was built on them.

    Returns:
        The steps among these whose own cell was not run again.
    """
    steps, stack = dict[int, Transformation](), list[Transformation](sources)
    while stack:
        step = stack.pop()
        if id(step) not in steps:
            steps[id(step)] = step
            stack += step.children
    newest: dict[str, int] = {}
    for step in steps.values():
        if step.cell is not None:
            newest[step.cell.cell] = max(step.cell.execution, newest.get(step.cell.cell, 0))
    replaced = [one for one in steps.values() if one.cell is not None and one.cell.execution < newest[one.cell.cell]]
    dropped, stack = dict[int, Transformation](), list(replaced)
    while stack:
        step = stack.pop()
        if id(step) not in dropped:
            dropped[id(step)] = step
            stack += step.children
    for step in steps.values():
        step.children = [] if id(step) in dropped else [child for child in step.children if id(child) not in dropped]
    for step in dropped.values():
        step.detached, step.cell = True, None
    return [step for step in dropped.values() if all(step is not one for one in replaced)]


def detach_unread(step: Transformation) -> None:
    """Detach a step that nothing reads, and what only it reads, until something is built on them."""
    if step.children or step.detached:
        return
    step.detached = True
    for parent in dict.fromkeys(step.parents):
        parent.children = [child for child in parent.children if child is not step]
        detach_unread(parent)
