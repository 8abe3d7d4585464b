import traceback

import pytest

from pystate.common.user_code.inlined_code import MAX_DEPTH, MAX_LINES, Code, indented, inlined


def adding(number, emit):
    return inlined(
        lambda code, element: [f"{element} = {element} + {code.bind(number, 'number')}", *code.apply(emit, element)]
    )


def repeating(count, emit):
    def write(code, element):
        return [f"for _ in range({count}):", *indented(code.apply(emit, element))]

    return inlined(write)


def lines_of(function):
    return Code().apply(function, "element")


def test_a_function_stands_as_its_own_lines_in_the_code_of_another():
    found = []
    last = adding(1, found.append)
    first = adding(10, last)
    first(5)
    last(5)
    assert found == [16, 6]
    assert len(lines_of(first)) == 3
    assert sum("(" in line for line in lines_of(first)) == 1  # the call of found.append


def test_what_has_no_lines_is_called():
    assert lines_of(print) == ["call_1(element)"]


@pytest.mark.parametrize("length", [MAX_LINES * 2, MAX_DEPTH * 8])
@pytest.mark.parametrize("link", [lambda emit: adding(1, emit), lambda emit: repeating(1, emit)])
def test_chains_of_any_length_can_be_made(length, link):
    found = []
    function = found.append
    for _ in range(length):
        function = link(function)
        assert len(lines_of(function)) <= MAX_LINES
    function(0)
    assert found in ([length], [0])


def test_chains_that_part_again_and_again_do_not_grow_without_end():
    found = []
    function = found.append
    for _ in range(12):
        target = function
        function = inlined(lambda code, element, target=target: [*code.apply(target, element), *code.apply(target, element)])
    function(1)
    assert found == [1] * 2**12
    assert len(lines_of(function)) <= MAX_LINES


def test_its_frames_count_as_ours_in_stack_traces():
    with pytest.raises(TypeError) as raised:
        adding(1, print)("text")
    file = traceback.extract_tb(raised.value.__traceback__)[-1].filename
    assert file.endswith("pystate/common/user_code/inlined code")
