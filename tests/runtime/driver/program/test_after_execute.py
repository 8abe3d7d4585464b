"""What a program does after the call that it is in."""

from __future__ import annotations

import runpy

import pytest

from pystate.runtime.driver.program.after_execute import what_follows

NOTHING = None
IN_A_METHOD = """class A:
    def main(self):
        if 1:
            execute()
        else:
            x = 2
        y = 3
A().main()
"""


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("execute()\n", NOTHING),
        ("execute()\nprint('done')\n", NOTHING),
        ("execute()\nother()\n", 2),
        ("result = execute(\n    'name',\n)\n'''text'''\nresult.get()\n", 5),
        ("def main():\n    execute()\n    return 1\nif __name__ == '__main__':\n    main()\n", NOTHING),
        ("def main():\n    execute()\n    second()\nif __name__ == '__main__':\n    main()\n", 3),
        ("def main():\n    execute()\n\n\nif __name__ == '__main__':\n    main()\n    second()\n", 7),
        (IN_A_METHOD, 7),
        ("for row in execute() or ():\n    use(row)\n", 2),
        ("try:\n    execute()\nexcept ValueError:\n    x = 1\nfinally:\n    y = 2\n", NOTHING),
        ("with open(__file__):\n    execute()\nz = 1\n", 3),
        ("execute()\ndef late():\n    pass\n", NOTHING),
        ("x = 1; execute()\n", NOTHING),
        ("x = 1; execute()\nother()\n", 2),
    ],
)  # fmt: skip
def test_the_first_line_that_does_something_is_found(tmp_path, program, line):
    path = tmp_path / "job.py"
    path.write_text(program)
    found = []

    def execute(*_):
        found.append(what_follows())

    names = {"execute": execute, "other": str, "second": str, "use": str}
    try:
        runpy.run_path(str(path), names, run_name="__main__")
    except AttributeError:
        pass  # the outcome of execute() here is None
    tests = [one for one in found if one is not None and str(path) in one]
    assert tests == ([] if line is None else [f"{path}, line {line}"])
