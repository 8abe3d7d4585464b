"""A job of sixty tasks in a browser: whatever is picked is seen, with what is known of it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.ops.jobmanager.dashboard.browser.pages import Pages
from tests.ops.jobmanager.harness import ManagerThread

TASKS = 60
IS_SHOWN = """(node) => {
  const [own, of] = [node, node.closest(".graph")].map((one) => one.getBoundingClientRect());
  return own.left >= of.left && own.right <= of.right && own.top >= of.top && own.bottom <= of.bottom;
}"""


def with_many_tasks(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer about a job with sixty tasks in its place, each seventh of which begins a branch."""
    vertex = answer["vertices"][0]
    ids = [f"{number:032x}" for number in range(TASKS)]
    names = [f"task {number} -> with a name that is rather long" for number in range(TASKS)]
    vertices = [{**vertex, "id": id_, "name": name} for id_, name in zip(ids, names, strict=True)]
    nodes = [
        {
            "id": ids[number],
            "parallelism": 2,
            "description": names[number],
            "inputs": [{"id": ids[number - 1 if number % 7 else max(0, number - 8)], "ship_strategy": "HASH"}][:number],
        }
        for number in range(TASKS)
    ]
    return {**answer, "vertices": vertices, "plan": {**answer["plan"], "nodes": nodes}}


@pytest.mark.parametrize("size", [(1400, 900), (390, 800)])
def test_a_task_that_is_picked_is_seen_in_a_large_graph_and_so_are_its_subtasks(
    browser: Browser, manager: ManagerThread, job: str, size: tuple[int, int]
) -> None:
    def watched(route: Route) -> None:
        events = ["retry: 1000\n\n"]
        for path in parse_qs(urlsplit(route.request.url).query)["path"]:
            status, answer = manager.request("GET", path)[:2]
            told = with_many_tasks(answer) if path == f"/jobs/{job}" else answer
            events.append(f"event: answer\ndata: {json.dumps({'path': path, 'status': status, 'body': told})}\n\n")
        route.fulfill(body="".join(events), content_type="text/event-stream")

    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, locale="en-GB")
    pages = Pages(context, manager)
    pages.page.route("**/pystate/watch?**", watched)
    page = pages.go(f"/jobs/{job}")
    nodes = page.locator(".node")
    expect(nodes).to_have_count(TASKS)
    assert page.locator(".graph").evaluate("(one) => one.clientHeight") < size[1]

    nodes.nth(40).click()
    subtasks = page.get_by_role("heading", name="task 40 ->")
    expect(subtasks).to_be_in_viewport()

    tasks = page.locator("section").filter(has=page.get_by_role("heading", name="Tasks", exact=True))
    expect(tasks.locator("tbody tr")).to_have_count(20)
    tasks.get_by_role("button", name="Show 20 more").click()
    expect(tasks.locator("tbody tr")).to_have_count(40)
    tasks.get_by_role("button", name="task 3 ->").press("Enter")
    expect(page.get_by_role("heading", name="task 3 ->")).to_be_in_viewport()
    assert nodes.nth(3).evaluate(IS_SHOWN)
    pages.check_console()
    context.close()
