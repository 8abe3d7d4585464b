"""A job's page in a browser: its graph, its log, and what its buttons do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.ops.jobmanager.dashboard.browser.pages import Pages
from tests.ops.jobmanager.harness import ManagerThread


def test_the_graph_shows_a_task_and_its_subtasks(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}")
    expect(page.get_by_role("heading", name="Job graph")).to_be_visible()
    expect(page.get_by_text("Records per second", exact=True)).to_be_visible()
    timeline = page.locator("section").filter(has=page.get_by_role("heading", name="Time line of epochs"))
    expect(timeline.get_by_text("asking sources")).to_be_visible()


def test_tasks_are_listed_with_what_they_have_read_and_each_metric_is_found(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}")
    tasks = page.locator("section").filter(has=page.get_by_role("heading", name="Tasks", exact=True))
    expect(tasks.get_by_role("columnheader", name="Bytes in")).to_be_visible()
    tasks.locator("tbody").get_by_role("button").first.click()
    page.get_by_text("All metrics").click()
    page.get_by_label("Find a metric").fill("numRecordsInPerSecond")
    rows = page.locator("details").filter(has_text="All metrics").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("numRecordsInPerSecond")


INSIDE = """(node) => {
  for (const value of node.querySelectorAll('dd')) value.textContent = '999.9 KiB/s, 999.9 KiB/s';
  const { top, bottom } = node.getBoundingClientRect();
  const parts = [...node.children].map((part) => part.getBoundingClientRect());
  return parts.every((part) => part.top > top && part.bottom < bottom);
}"""


def test_a_node_of_the_graph_shows_its_name_and_all_of_its_values(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}")
    node = page.locator(".node").first
    expect(node.get_by_role("img")).to_be_visible()  # its load is known
    assert node.evaluate(INSIDE)


TASKS = """(given) => import(new URL('ui/app/tasks.js', location.href)).then(({ tasksOf }) => [...tasksOf(given).values()]
  .map(({ bytesIn, bytesOut, watermark }) => ({ bytesIn, bytesOut, watermark })))"""


def test_a_tasks_bytes_are_those_of_its_subtasks_and_its_watermark_is_the_earliest(pages: Pages) -> None:
    values = [
        {"numBytesInPerSecond": 10, "numBytesOutPerSecond": 1, "currentInputWatermark": 3_000},
        {"numBytesInPerSecond": 20, "numBytesOutPerSecond": 2, "currentInputWatermark": 2_000},
        {"numBytesInPerSecond": 0, "currentInputWatermark": -(2**63)},
    ]
    given = [
        {"vertex": "v", "task": "count", "operator": None, "subtask": index, "name": name, "value": value}
        for index, named in enumerate(values)
        for name, value in named.items()
    ]
    told: Any = pages.page.evaluate(TASKS, given)
    assert told == [{"bytesIn": 30, "bytesOut": 3, "watermark": 2_000}]


PARTITIONS = "(given) => import(new URL('ui/app/pages/partitions.js', location.href)).then((one) => one.partitionsOf(given))"


def test_how_far_a_kafka_source_has_read_is_told_by_partition(pages: Pages) -> None:
    reader = "KafkaSourceReader.topic.a.partition.7.partition"
    values = {
        f"{reader}.10.currentOffset": 5,
        f"{reader}.10.pendingRecords": 2,
        f"{reader}.9.currentOffset": -1,
        f"{reader}.11.currentOffset": 5,
        f"{reader}.11.pendingRecords": "NaN",
        "pendingRecords": 2,
    }
    metrics = [{"operator": "words", "name": name, "value": value} for name, value in values.items()]
    told: Any = pages.page.evaluate(PARTITIONS, metrics)
    assert [(one["topic"], one["partition"], one["currentOffset"], one.get("pendingRecords")) for one in told] == [
        ("a.partition.7", 9, -1, None),
        ("a.partition.7", 10, 5, 2),
        ("a.partition.7", 11, 5, None),
    ]


TOPICS = """(given) => import(new URL('ui/app/pages/partitions.js', location.href)).then(({ topicsOf }) =>
  topicsOf(given).map((one) => [one.topic, one.left, one.partitions.map(({ partition }) => partition)]))"""
GROWTH = """(byEpochs) => import(new URL('ui/app/pages/partitions.js', location.href)).then(({ growth }) => {
  const kept = new Map();
  return [[100, 10], [101, 11], [104, 50], [106, 20], [110, 20], [130, 20]].map(([now, value]) => {
    const { speed, still } = growth(kept, [["a", value]], now, byEpochs);
    return [speed("a"), still("a")];
  });
})"""


def test_a_topic_tells_what_is_left_of_all_its_partitions_and_the_worst_come_first(pages: Pages) -> None:
    left = {0: (4, 0), 1: (-1, 0), 2: (7, 30), 3: (9, 500)}
    given: list[dict[str, Any]] = [
        {
            "key": f"o b {number}",
            "operator": "o",
            "topic": "b",
            "partition": number,
            "currentOffset": at,
            "pendingRecords": rows,
        }
        for number, (at, rows) in left.items()
    ]
    given.insert(0, {"operator": "o", "topic": "a", "partition": 0, "currentOffset": 3})
    assert pages.page.evaluate(TOPICS, given) == [["b", 530, [3, 2, 0, 1]], ["a", None, [0]]]


PANEL = """([partitions, byEpochs]) => import(new URL('ui/app/pages/partitions.js', location.href))
  .then(async ({ Partitions }) => {
  const { html, render } = await import(new URL('ui/app/preact.js', location.href));
  const place = document.createElement("div");
  render(html`<${Partitions} partitions=${partitions} now=${0} byEpochs=${byEpochs} />`, place);
  const told = place.innerText + place.textContent;
  render(null, place);
  return told;
})"""


def test_a_topic_of_brokers_that_are_away_is_not_said_to_be_read_up(pages: Pages) -> None:
    one: dict[str, Any] = {"key": "o b 0", "operator": "o", "topic": "b", "partition": 0, "currentOffset": 9}
    told: Any = pages.page.evaluate(PANEL, [[one], False])
    assert "How many records are left of b is not known now." in told
    assert "read up" not in told
    told = pages.page.evaluate(PANEL, [[{**one, "pendingRecords": 0}], False])
    assert "not known" not in told
    assert "read up" in told


def test_how_fast_partitions_are_read_is_known_after_two_seconds_and_anew_when_they_are_read_again(pages: Pages) -> None:
    known = [[None, False], [None, False], [10, False], [None, False]]
    assert pages.page.evaluate(GROWTH, False) == [*known, [0, False], [0, True]]
    assert pages.page.evaluate(GROWTH, True) == [*known, [None, False], [None, False]], "an epoch may run for long"


LEFT_OUT = "(given) => import(new URL('ui/app/pages/sources.js', location.href)).then((one) => one.leftOut(given))"


def test_records_that_could_not_be_read_are_counted_by_source(pages: Pages) -> None:
    values = [("orders", "numRecordsInErrors", 2), ("orders", "numRecordsInErrors", 1), ("clicks", "numRecordsInErrors", 0)]
    metrics = [{"operator": operator, "name": name, "value": value} for operator, name, value in values]
    assert pages.page.evaluate(LEFT_OUT, [*metrics, {"operator": None, "name": "numRecordsIn", "value": 9}]) == [
        ["orders", 3]
    ]


PARTS = "(given) => import(new URL('ui/app/pages/barriers.js', location.href)).then(({ partsOf }) => given.map(partsOf))"
SPANS = "(given) => import(new URL('ui/app/pages/barriers.js', location.href)).then(({ spansOf }) => spansOf(given))"


def test_the_parts_of_a_barrier_reach_from_its_trigger_to_the_last_thing_known(pages: Pages) -> None:
    whole = {
        "trigger_timestamp": 1000,
        "end_to_end_duration": 100,
        "start_delay": 30,
        "alignment_duration": None,
        "sync_duration": 50,
        "async_duration": 90,  # of another subtask than the longest synchronous part
        "completion_timestamp": 1130,
        "notification_timestamp": 1150,
    }
    failed = {"trigger_timestamp": 1000, "end_to_end_duration": 70, "start_delay": 20, "status": "FAILED"}
    nothing = {"trigger_timestamp": 1000, "end_to_end_duration": -1}
    told: Any = pages.page.evaluate(PARTS, [whole, failed, nothing])
    kinds = ("delay", "alignment", "sync", "async", "acknowledging", "failed", "completing", "notifying")
    assert [[one[kind] for kind in kinds] for one in told] == [
        [30, 0, 50, 20, 0, 0, 30, 20],
        [20, 0, 0, 0, 0, 50, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    subtask = {"start_delay": 5, "alignment": {"duration": -1}, "checkpoint": {"sync": 1, "async": 2}}
    spans: Any = pages.page.evaluate(SPANS, {"end_to_end_duration": 10, **subtask})
    assert spans == [["delay", 0, 5], ["alignment", 5, 5], ["sync", 5, 6], ["async", 6, 8], ["acknowledging", 8, 10]]


def test_barriers_of_the_real_time_engine_have_a_time_line_that_the_keyboard_walks(
    pages: Pages, barriers: str, job: str
) -> None:
    page = pages.go(f"/jobs/{barriers}")
    line = page.locator("section").filter(has=page.get_by_role("heading", name="Time line of barriers"))
    expect(line.get_by_role("heading", name="Barrier 3")).to_be_visible()
    expect(line.get_by_role("img").first).to_have_attribute("aria-label", re.compile("parts of the last barriers"))
    expect(line.get_by_role("row").filter(has_text="not acknowledged")).to_have_count(1)

    earlier = line.get_by_role("button", name="Earlier")
    earlier.press("Enter")
    expect(line.get_by_role("heading", name="Barrier 2")).to_be_visible()
    row = line.get_by_role("row").filter(has_text="count")
    expect(row).to_contain_text("subtask 1 was the last")
    assert row.locator("td").all_text_contents()[2:] == ["34 ms", "7 ms", "4 ms", "5 ms", "9.1 KiB", "90 ms"]
    completed = line.get_by_role("row").filter(has_text="Completed")
    expect(completed).to_contain_text("130 ms")
    expect(line.get_by_role("row").filter(has_text="Functions notified")).to_contain_text("150 ms")

    row.get_by_role("button").press("Enter")
    expect(line.get_by_role("row").filter(has_text="Subtask 0")).to_contain_text("60 ms")
    line.get_by_role("button", name="Later").press("Enter")
    expect(line.get_by_role("heading", name="Barrier 3")).to_be_visible()
    expect(line.get_by_role("button", name="Later")).to_be_disabled()

    page.route("**/details/1", lambda route: route.fulfill(status=503, body='{"errors": ["later"]}'))
    for _ in range(2):
        earlier.press("Enter")
    expect(line.get_by_role("alert")).to_contain_text("later")
    expect(line.locator("table.barriers")).to_have_count(0)  # that of another barrier
    page.unroute("**/details/1")

    pages.go(f"/jobs/{job}")
    expect(page.get_by_role("heading", name="Time line of epochs")).to_be_visible()
    expect(line).to_have_count(0)


def test_the_log_follows(pages: Pages, manager: ManagerThread, job: str) -> None:
    page = pages.go(f"/jobs/{job}/log")
    log = page.locator("pre.log")
    with manager.home.job(job).log.open("a") as file:
        file.write("2026-11-29 a first line\n")
    expect(log).to_contain_text("a first line")
    with manager.home.job(job).log.open("a") as file:
        file.write("2026-11-29 a later <b>line</b>\n")
    expect(log).to_contain_text("a later <b>line</b>")
    page.get_by_role("searchbox").fill("later")
    expect(log).not_to_contain_text("first line")


@pytest.mark.parametrize(("offset_ms", "count"), [(28_800_000, 1), (19_800_000, 0)])
def test_a_log_tells_its_time_zone_where_that_is_not_the_browsers(
    browser: Browser, manager: ManagerThread, job: str, offset_ms: int, count: int
) -> None:
    context = browser.new_context(locale="en-GB", timezone_id="Asia/Kolkata")
    pages = Pages(context, manager)
    pages.page.route("**/config", lambda route: route.fulfill(body=f'{{"timezone-offset": {offset_ms}}}'))
    with pages.page.expect_response("**/config"):
        page = pages.go(f"/jobs/{job}/log")
    expect(page.locator("pre.log")).to_be_visible()
    told = page.get_by_text("Times in the log are UTC+8, those of the page UTC+5:30")
    expect(told).to_have_count(count)
    context.close()


def test_a_savepoint_is_taken_and_shown_with_its_command(pages: Pages, job: str, tmp_path: Path) -> None:
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Savepoint", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("before the sale")
    expect(dialog).to_contain_text(f"pystate savepoint {job} --message 'before the sale'")
    dialog.get_by_role("button", name="Back").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_job_is_stopped_with_a_savepoint_by_hand(pages: Pages, manager: ManagerThread, tmp_path: Path) -> None:
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")}
    job = manager.submit("--write-savepoint", "--name", "to stop", configuration=settings)
    manager.wait_for(job, "RUNNING")
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"pystate stop {job}")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".title .badge")).to_have_text(re.compile("FINISHED"))
    assert manager.state(job) == "FINISHED"


def test_a_job_is_cancelled_by_hand_and_the_page_says_so(pages: Pages, manager: ManagerThread) -> None:
    job = manager.submit("--name", "to cancel")
    manager.wait_for(job, "RUNNING")
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".title .badge")).to_have_text("CANCELED")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)


def test_a_job_is_rescaled_by_the_page_alone_and_the_page_goes_on_with_it(
    pages: Pages, manager: ManagerThread, tmp_path: Path
) -> None:
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "sp")}
    job = manager.submit("--name", "to rescale", configuration=settings)
    manager.wait_for(job, "RUNNING")
    page = pages.go(f"/jobs/{job}")
    page.get_by_role("button", name="Rescale", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Parallelism").fill("3")
    expect(dialog).to_contain_text(f"pystate rescale {job} -p 3")
    dialog.get_by_role("button", name="Rescale it").click()
    expect(page).not_to_have_url(re.compile(job))
    expect(page.get_by_role("dialog")).to_have_count(0)
    successor = page.url.rpartition("/")[2]
    expect(page.get_by_role("heading", level=1)).to_have_text("to rescale")
    assert manager.request("GET", f"/pystate/jobs/{successor}/submission")[1]["parallelism"] == 3
    assert manager.state(job) == "FINISHED"
    manager.request("PATCH", f"/jobs/{successor}")


@pytest.mark.parametrize("hash_", ["/jobs/overview", "/jobs/%", "/jobs/..%2F..%2Foverview", "/jobs/x;reboot/log", "/jobs/"])
def test_an_address_of_no_job_is_told(pages: Pages, hash_: str) -> None:
    page = pages.go(hash_)
    expect(page.get_by_role("alert").filter(has_text="not the id of a job")).to_be_visible()
    page.get_by_role("link", name="Savepoints").click()
    expect(page.get_by_role("heading", name="Savepoints")).to_be_visible()


def test_a_key_of_the_running_job_is_watched_and_its_consistency_named(pages: Pages, job: str) -> None:
    page = pages.go(f"/jobs/{job}/state")
    panel = page.locator("section").filter(has=page.get_by_role("heading", name="A key of the running job"))

    def look(state: str, key: str, consistency: str) -> None:
        panel.locator("select[name=state]").select_option(state)
        panel.locator("input[name=key]").fill(key)
        panel.locator("select[name=consistency]").select_option(consistency)
        panel.get_by_role("button", name="Watch", exact=True).click()

    look("query-name", "1", "checkpointed")
    expect(panel.locator("code.value")).to_have_text("[1,2]")
    expect(panel.locator("dl")).to_contain_text("checkpoint 3")
    expect(panel.locator("dl")).to_contain_text("A failure does not take it back.")
    look("query-name", "1", "live")
    expect(panel.locator("dl")).to_contain_text("epoch 18")
    expect(panel.locator("dl")).to_contain_text("A failure may take it back")
    look("counts", "a", "live")
    expect(panel.get_by_role("row").filter(has_text="bee")).to_contain_text("2")
    look("words", "to be", "live")
    expect(panel.locator("dl")).to_contain_text("and more")
    expect(panel).to_contain_text(f"pystate query {job} words 'to be' --consistency live")
    look("counts", "nobody", "live")
    expect(panel.get_by_role("alert")).to_contain_text("no value")
    expect(panel.locator("dl")).to_have_count(0)
    panel.get_by_role("button", name="Stop watching").click()
    expect(panel.get_by_role("alert")).to_have_count(0)
