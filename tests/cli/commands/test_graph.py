"""`pystate graph`: the graph of a job, and of a program that is not run."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from pystate.runtime.rest.job_detail_messages import JobPlanInfo
from pystate_cli.commands.graph import plan_of_job
from pystate_cli.views.plan_svg import plan_svg
from pystate_cli.views.plan_view import plan_lines
from tests.cli.commands.test_info import JOB

SVG = "{http://www.w3.org/2000/svg}"
TREE = """\
adds, parallelism 2
Source: Collection Source ×2
└─ hash → sum ×3
   ├─ rebalance → text ×2
   │  └─ forward → Sink: Print ×2
   └─ rebalance → Sink: Print ×2
Source: Collection Source ×2
└─ forward → copy ×2
   └─ hash → sum  (see above)
"""


@pytest.fixture
def program(tmp_path: Any) -> Any:
    path = tmp_path / "adds.py"
    path.write_text(JOB)
    return path


def test_a_program_is_drawn_without_a_job_manager(pystate, program, own_home, tmp_path):
    code, out, err = pystate("graph", program, "-p", 2, "--", "an argument")
    assert (code, out) == (0, TREE), err
    assert "said by the program ['an argument']" in err

    drawing = tmp_path / "adds.svg"
    assert pystate("graph", program, "--svg", drawing).code == 0
    assert len(ET.parse(drawing).getroot().findall(f"{SVG}g")) == 7  # noqa: S314 - our own file


def test_a_job_is_drawn_by_its_tasks(pystate, manager, running):
    code, out, err = pystate("graph", running, "--svg", "-")
    assert code == 0, err
    assert ET.fromstring(out).tag == f"{SVG}svg"  # noqa: S314 - our own text
    code, out, err = pystate("graph", running, "-p", 2)
    assert (code, out) == (2, "")
    assert "for the graph of a program" in err


def node(uid: str, description: str, *inputs: str) -> dict[str, Any]:
    found: dict[str, Any] = {"id": uid * 32, "description": description, "uid": uid, "parallelism": 2}
    if inputs:
        fed = [{"id": one * 32, "num": 0, "exchange": "pipelined", "ship_strategy": "HASH"} for one in inputs]
        found["inputs"] = fed
    return found


PLAN = {
    "plan": {
        "jid": "0" * 32,
        "name": "<b>&\u202e",
        "nodes": [
            node("d", "last<br/>+- Sink: out &lt;x&gt;<br/>", "c", "a"),
            node("c", "second<br/>", "b"),
            node("b", "first<br/>", "a"),
            node("a", "Source: words<br/>"),
        ],
    }
}


def test_the_tasks_of_a_job_in_a_tree() -> None:
    assert plan_lines(plan_of_job(JobPlanInfo.from_plain(PLAN)), unicode=False)[1:] == [
        "Source: words x2",
        "+- hash -> first x2",
        "|  `- hash -> second x2",
        "|     `- hash -> last -> Sink: out <x> x2",
        "`- hash -> last -> Sink: out <x>  (see above)",
    ]


def test_no_box_lies_on_another_or_on_an_edge_that_passes_it() -> None:
    drawing = ET.fromstring(plan_svg(plan_of_job(JobPlanInfo.from_plain(PLAN))))  # noqa: S314 - our own text
    boxes = [tuple(float(one.attrib[name]) for name in ("x", "y", "width", "height")) for one in drawing.iter(f"{SVG}rect")]
    assert len(boxes) == len({box[0] for box in boxes}) == 4
    long_way = next(one.attrib["d"] for one in drawing.iter(f"{SVG}path") if one.attrib.get("d", "").count("C") == 3)
    passes = [float(point.split(",")[1].split()[0]) for point in long_way.split(" L")[1:]]
    assert len(passes) == 2
    for at in passes:
        assert all(not y <= at <= y + height for x, y, _, height in boxes if boxes[0][0] < x < boxes[3][0])
    title = drawing.find(f"{SVG}title")
    assert title is not None
    assert str(title.text).startswith("<b>&")
    assert "\u202e" not in str(title.text)


def test_each_operator_of_a_chain_has_a_line_in_the_box_of_its_task() -> None:
    names = [f"step {number}" for number in range(9)]
    plan = {**PLAN, "plan": {**PLAN["plan"], "nodes": [node("b", "<br/>+- ".join(names), "a"), node("a", "first<br/>")]}}
    drawing = ET.fromstring(plan_svg(plan_of_job(JobPlanInfo.from_plain(plan))))  # noqa: S314 - our own text

    _, task = drawing.iter(f"{SVG}g")
    lines = [str(one.text) for one in task.iter(f"{SVG}text")]
    assert lines[:-1] == [*names[:5], "\u2026 4 more"]
    box, height = task.find(f"{SVG}rect"), float(drawing.attrib["height"])
    assert box is not None
    top, bottom = float(box.attrib["y"]), float(box.attrib["y"]) + float(box.attrib["height"])
    assert bottom < height
    places = [float(one.attrib["y"]) for one in task.iter(f"{SVG}text")]
    assert places == sorted(set(places))
    assert top < places[0]
    assert places[-1] < bottom
