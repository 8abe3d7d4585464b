"""The text of the code that is generated for each element: what neither mypy nor ruff sees is read here."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

import pystate
from pystate.common import Types
from pystate.common.user_code.inlined_code import Code
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.plan.chain import Chain, ChainNode, Copies, OperatorSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.compiled_chain import compile_chain
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.keyed import reduce_handler
from pystate.runtime.slot.operators.one_input import (
    filter_handler,
    many_handler,
    map_handler,
    process_handler,
    stateless_handler,
)
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.output_buffer import OutputBuffer

GENERATING = {"common/user_code/inlined_code.py", "core/state/formats/field_checks.py"}
"""The modules that make code of text. Without it `python -m tests.costs` counts 4 to 10 % more instructions for records
whose chain is called, and 27 to 53 % more for sums and windows whose tuples are checked by a loop."""
DEBUGGING = {"testing/program.py"}
"""What evaluates the author's own expressions, for the author's own program."""


class _Backend:
    """Gives out one state that holds nothing."""

    def get_partitioned_state(self, _descriptor: Any) -> SimpleNamespace:
        return SimpleNamespace(value=lambda: None, update=lambda _value: None)


def text_of(function: Callable[[Any], None]) -> str:
    return "\n".join(Code().apply(function, "element")) + "\n"


def text(lines: str) -> str:
    return dedent(lines).lstrip("\n").rstrip(" ")


def emit(_element: Any) -> None: ...


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            map_handler(abs, emit),
            """
            result_1 = map_2(element)
            call_3(result_1)
            """,
        ),
        (
            filter_handler(bool, emit),
            """
            if filter_1(element):
                call_2(element)
            """,
        ),
        (
            many_handler(list, emit),
            """
            results_1 = function_3(element)
            if results_1 is not None:
                for result_2 in results_1:
                    call_4(result_2)
            """,
        ),
        (
            process_handler(list, Output(emit), "context"),
            """
            results_1 = function_4(element, argument_3)
            if results_1 is not None:
                for result_2 in results_1:
                    if OutputTag_5.any_made:
                        collect_6(result_2)
                    else:
                        call_7(result_2)
            """,
        ),
        (
            reduce_handler(max, emit, _Backend(), Types.LONG()),  # type: ignore[arg-type]
            """
            so_far_1 = value_3()
            if so_far_1 is None:
                result_2 = element
            else:
                result_2 = reduce_4(so_far_1, element)
                if result_2 is None:
                    raise forgotten_5()
            update_6(result_2)
            call_7(result_2)
            """,
        ),
    ],
)
def test_the_text_of_a_function(made: Emit, expected: str) -> None:
    assert text_of(made) == text(expected)


def test_the_text_of_a_chain_is_one_piece() -> None:
    time = ChainTime(lambda: 0)
    written = OutputSpec(0, OutputKind.EDGE, "next", type_info=Types.LONG(), target="next")
    buffers = {0: OutputBuffer(written, lambda *_: None, "", time)}
    double = ChainNode(OperatorSpec("double", "double", OperatorKind.MAP, lambda n: 2 * n), outputs=[written])
    odd = ChainNode(OperatorSpec("odd", "odd", OperatorKind.FILTER, lambda n: n % 2), [double], [written], copies=Copies.ALL)
    made = compile_chain(
        Chain([odd]), buffers, lambda spec, output: stateless_handler(spec.kind, spec.function, output, time)
    )
    assert text_of(made.emit) == text("""
        if filter_1(element):
            elements_2.append(element)
            if len(elements_2) >= 8192:
                end_batch_3(0)
            own_4 = element if type(element) in unchanging_5 else copied_6(element)
            result_7 = map_8(own_4)
            elements_9.append(result_7)
            if len(elements_9) >= 8192:
                end_batch_10(0)
        """)


def test_no_other_module_makes_code_of_text() -> None:
    root = Path(pystate.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        if any(isinstance(call, ast.Name) and call.id in ("exec", "eval") for call in calls):
            found.add(path.relative_to(root).as_posix())
    assert found == GENERATING | DEBUGGING
