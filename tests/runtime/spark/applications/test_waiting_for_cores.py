"""What becomes of an application that waits for cores, with the cluster replaced."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pystate.common.errors import JobExecutionError, SparkLostError
from pystate.runtime.spark.applications.application import CoreWatch, executor_cores
from pystate.runtime.spark.applications.application_state import ApplicationState, application_state, cores_sentence
from pystate.runtime.spark.applications.required_cores import micro_batch_cores
from pystate.runtime.spark.applications.standalone_master import Application, MasterView

MASTER = "spark://10.0.0.1:7077"
OURS = Application("app-2", "pystate 1f", 0)
OTHER = Application("app-1", "report", 16)
FULL = MasterView(MASTER, 2, 16, 16, (OTHER, OURS))
FREE = MasterView(MASTER, 2, 16, 0, (OURS,))
FORGETFUL = MasterView(MASTER, 2, 16, 0, ())
OVERDUE = {"timed_out": True, "restart": True}
EARLY = {"timed_out": False, "restart": True}


class Cluster:
    """Executors whose cores come by themselves; `views` are what the master says from look to look."""

    application_id = OURS.application_id
    master = MASTER

    def __init__(self, *views, cores=(0,)):
        self.views = list(views) or [None]
        self.cores_then = list(cores)
        self.now = 0.0
        self.said = []

    def cores(self):
        return self.cores_then.pop(0) if len(self.cores_then) > 1 else self.cores_then[0]

    def view(self):
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]

    def pause(self, seconds):
        self.now += seconds

    def wait(self, needed=6, timeout_s=60.0, *, restart=True, least=None, given_up=lambda: False):
        required = replace(micro_batch_cores(2), cores=needed, least=least or needed)
        options = {"restart": restart, "say": self.said.append, "clock": lambda: self.now}
        watch = CoreWatch(self, required, timeout_s, **options)
        watch.wait(given_up, self.pause)


@pytest.mark.parametrize(
    ("cores", "view", "when", "fate"),
    [
        (0, FORGETFUL, EARLY, ApplicationState.LOST),  # the master was restarted
        (0, FORGETFUL, {"timed_out": False, "restart": False}, ApplicationState.LOST),
        (4, FORGETFUL, EARLY, ApplicationState.WAITS),  # executors that are there are not given up
        (0, FREE, EARLY, ApplicationState.WAITS),
        (0, None, EARLY, ApplicationState.WAITS),
        (0, None, OVERDUE, ApplicationState.LOST),  # nobody says why
        (0, FREE, OVERDUE, ApplicationState.LOST),  # there are cores, and yet no executor comes
        (0, FULL, OVERDUE, ApplicationState.TOO_FEW),  # a new application would wait behind this one
        (2, None, OVERDUE, ApplicationState.TOO_FEW),
        (0, None, {"timed_out": True, "restart": False}, ApplicationState.TOO_FEW),  # for who starts it to see
    ],
)
def test_an_application_is_given_up_only_where_no_executor_can_come_to_it(cores, view, when, fate):
    assert application_state(OURS.application_id, cores, view, **when) is fate


def test_a_master_that_has_forgotten_the_application_is_noticed_in_seconds():
    cluster = Cluster(FORGETFUL)
    with pytest.raises(SparkLostError) as caught:
        cluster.wait(timeout_s=3600)
    assert cluster.now < 5
    assert caught.value.message == (
        f"The Spark master {MASTER} does not know the application app-2: it was started again without its memory "
        "(spark.deploy.recoveryMode)."
    )


def test_an_application_that_nobody_answers_for_is_lost_when_its_time_is_over():
    cluster = Cluster(None)
    with pytest.raises(
        SparkLostError, match=f"The Spark master {MASTER} gave the application app-2 no executor within 60 s"
    ):
        cluster.wait()
    assert 60 <= cluster.now < 61


def test_who_holds_the_cores_is_told_in_seconds_and_once():
    cluster = Cluster(FULL)
    with pytest.raises(JobExecutionError) as caught:
        cluster.wait(restart=False)
    held = f"the Spark master {MASTER} has 16 cores, none free: another application holds them (report (app-1): 16)"
    assert cluster.said == [f"Waiting for 6 cores: {held}."]
    assert caught.value.message == f"Parallelism 2 needs 6 cores (2 x parallelism + 2); {held}; 6 are missing."
    assert "(workers of the cluster, and spark.cores.max where it is set)" in (caught.value.hint or "")
    first = Cluster(FULL, cores=[0] * 50 + [6])
    first.wait(restart=False)
    assert 3 <= first.now < 6
    assert len(first.said) == 1, "and the wait goes on"


def test_cores_that_come_end_the_wait_and_an_attempt_that_is_over_does():
    cluster = Cluster(None, cores=[0, 2, 6])
    cluster.wait()
    assert cluster.now < 1
    assert cluster.said == []
    Cluster(FORGETFUL).wait(given_up=lambda: True)


def test_a_job_that_has_run_before_goes_on_with_what_is_left_of_its_cluster():
    cluster = Cluster(None, cores=[0, 4])
    cluster.wait(least=3)
    assert 15 <= cluster.now < 16, "the others may still come"
    assert cluster.said == ["The job goes on with 4 of 6 cores, and more slowly."]
    with pytest.raises(JobExecutionError, match="needs 6 cores"):
        Cluster(None, cores=[0, 2]).wait(least=3)
    with pytest.raises(JobExecutionError, match="needs 6 cores"):
        Cluster(None, cores=[0, 4]).wait(restart=False)


STARTING = MasterView(MASTER, 2, 16, 16, (Application("app-2", "pystate 1f", 16),))


@pytest.mark.parametrize("view", [None, FREE, STARTING])
def test_executors_that_are_only_slow_to_come_are_spoken_of_late(view):
    soon = Cluster(view, cores=[0] * 100 + [6])
    soon.wait()
    assert soon.said == []
    late = Cluster(view, cores=[0] * 200 + [6])
    late.wait()
    assert len(late.said) == 1


@pytest.mark.parametrize(
    ("view", "cores", "sentence"),
    [
        (
            STARTING,
            0,
            f"the Spark master {MASTER} has 16 cores and has given 16 of them to this application; "
            "executors with 0 have come",
        ),
        (None, 2, f"the Spark master {MASTER} has given this application 2"),
        (MasterView(MASTER, 0, 0, 0, (OURS,)), 0, f"the Spark master {MASTER} has no workers"),
        (FREE, 0, f"the Spark master {MASTER} has 16 cores and has given this application 0, 16 are free"),
        (
            MasterView(MASTER, 1, 4, 4, (Application("app-2", "pystate 1f", 4),)),
            4,
            f"the Spark master {MASTER} has 4 cores and has given this application 4, none are free",
        ),
        (
            MasterView(MASTER, 2, 16, 16, (Application("app-1", "a", 6), Application("app-3", "b", 8), OURS)),
            2,
            f"the Spark master {MASTER} has 16 cores, none free: other applications hold 14 "
            "(b (app-3): 8, a (app-1): 6), 2 are given to this one",
        ),
    ],
)
def test_what_cores_there_are_is_said_as_it_is(view, cores, sentence):
    assert cores_sentence(OURS.application_id, MASTER, cores, view) == sentence


def test_an_executor_has_the_cores_it_came_with_and_not_those_that_were_asked_for():
    came = {"1": (5, 5), "2": (5, 1), "driver": (0, 0)}
    listed = [
        SimpleNamespace(id=lambda name=name: name, maxTasks=lambda most=most: most, totalCores=lambda cores=cores: cores)
        for name, (most, cores) in came.items()
    ]
    executors = SimpleNamespace(size=lambda: len(listed), apply=listed.__getitem__)
    scala = SimpleNamespace(statusStore=lambda: SimpleNamespace(executorList=lambda _: executors))
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala)))
    assert executor_cores(spark) == 6, "Spark's recovery mode on Kubernetes starts them with one core"
