"""Cores and applications of a standalone master, from the JSON of its web page.

Spark's own protocol has the same information, but only for Scala code; the page exists unless it was disabled.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MASTER_PORT_KEY = "spark.master.ui.port"
"""Spark's key for the port of the master's web UI."""
DEFAULT_MASTER_PORT = 8080
FETCH_TIMEOUT_S = 1.5
_PREFIX = "spark://"
_MOST_WORKERS = 3
"""How many workers are asked for their master; each may take the whole timeout."""
_LONGEST_ANSWER = 16 << 20

Fetch = Callable[[str], Any]
"""(URL) -> the JSON there, None if there is none."""


@dataclass(frozen=True)
class Application:
    """An application that has not ended; `cores` are those it holds."""

    application_id: str
    name: str
    cores: int


@dataclass(frozen=True)
class MasterView:
    """The view of the leading master.

    Attributes:
        url: Its address, `spark://host:port`.
        workers: The number of live workers.
        cores: Their cores in total.
        cores_used: The cores held by applications.
        applications: All applications that have not ended.
    """

    url: str
    workers: int
    cores: int
    cores_used: int
    applications: tuple[Application, ...]

    def knows(self, application_id: str) -> bool:
        """Return whether it knows an application; a master restarted without recovery has forgotten all of them."""
        return any(one.application_id == application_id for one in self.applications)

    def given_to(self, application_id: str) -> int:
        """Return the cores that an application holds, including those of executors that are still starting."""
        return sum(one.cores for one in self.applications if one.application_id == application_id)

    @property
    def is_full(self) -> bool:
        """Whether no core is free."""
        return self.cores_used >= self.cores

    def end(self, application_id: str) -> str:
        """Return what has become of an application that it doesn't know, as the end of a sentence."""
        del application_id
        return "is not known to the Spark master any more (spark.deploy.recoveryMode)"

    def lost_sentence(self, application_id: str) -> str:
        """Return the sentence on an application that it doesn't know."""
        return (
            f"The Spark master {self.url} does not know the application {application_id}: it was started again without its "
            "memory (spark.deploy.recoveryMode)."
        )

    def cores_sentence(self, application_id: str, cores: int) -> str:
        """Return the sentence on the cluster's cores and who holds them, for an application whose executors have `cores`."""
        if self.workers == 0:
            return f"the Spark master {self.url} has no workers"
        free = self.cores - self.cores_used
        told = f"the Spark master {self.url} has {self.cores} cores"
        own = self.given_to(application_id)
        if own > cores:
            return f"{told} and has given {own} of them to this application; executors with {cores} have come"
        others = self.others(application_id)
        if not others:
            return f"{told} and has given this application {cores}, {free or 'none'} are free"
        who = "another application holds" if len(others) == 1 else "other applications hold"
        held = "them" if not free and not cores else str(sum(one.cores for one in others))
        names = ", ".join(f"{one.name} ({one.application_id}): {one.cores}" for one in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        given = f", {cores} are given to this one" if cores else ""
        return f"{told}, {free or 'none'} free: {who} {held} ({names}{more}){given}"

    def others(self, application_id: str) -> list[Application]:
        """Return the other applications that hold cores, the largest first."""
        holding = [one for one in self.applications if one.cores and one.application_id != application_id]
        return sorted(holding, key=lambda one: (-one.cores, one.application_id))


def masters_in(master: str) -> list[str]:
    """Return `spark://host:port` of each of the masters in `spark://host:port,host:port`."""
    words = master.removeprefix(_PREFIX).split(",") if master.startswith(_PREFIX) else []
    return [f"{_PREFIX}{word.strip()}" for word in words if word.strip()]


def address_of(master: str) -> tuple[str, int]:
    """Return host and port of one of `masters_in`."""
    host, _, port = master.removeprefix(_PREFIX).rpartition(":")
    return host, int(port)


def look_at_master(master: str, port: int, worker_pages: Iterable[str], fetch: Fetch) -> MasterView | None:
    """Return the view of the leading master; None if it can't be asked.

    Args:
        master: The master of a job, as `spark.master` has it.
        port: The port of the masters' web UI.
        worker_pages: The web UIs of workers, which know the address of their master's; the first few are asked.
        fetch: Fetches a page's JSON.
    """
    masters = masters_in(master)
    guesses = [f"http://{address_of(one)[0]}:{port}" for one in masters]
    for page in guesses:
        view = _view(fetch(f"{page}/json/"), masters)
        if view is not None:
            return view
    for worker in list(worker_pages)[:_MOST_WORKERS]:
        for page in _master_pages(fetch(f"{worker}/json/")):
            if page not in guesses:
                guesses.append(page)
                view = _view(fetch(f"{page}/json/"), masters)
                if view is not None:
                    return view
    return None


def _master_pages(worker: Any) -> list[str]:
    """Return the possible addresses of the web UI of a worker's master; the host may be the worker's own "localhost"."""
    try:
        page, master = urlsplit(str(worker["masterwebuiurl"])), urlsplit(str(worker["masterurl"]))
        if page.scheme not in ("http", "https"):
            return []
        port = "" if page.port is None else f":{page.port}"
        return [f"{page.scheme}://{host}{port}" for host in (master.hostname, page.hostname) if host]
    except (KeyError, TypeError, ValueError):  # not the page of a worker
        return []


def _view(told: Any, masters: list[str]) -> MasterView | None:
    """Return the view of a page, if it is that of one of our masters and that master leads."""
    try:
        if told["url"] not in masters or told["status"] != "ALIVE":
            return None
        applications = [Application(str(one["id"]), str(one["name"]), int(one["cores"])) for one in told["activeapps"]]
        return MasterView(
            url=told["url"],
            workers=int(told["aliveworkers"]),
            cores=int(told["cores"]),
            cores_used=int(told["coresused"]),
            applications=tuple(applications),
        )
    except (KeyError, TypeError, ValueError):  # not the page of a master, or of an unknown format
        return None


def fetch_json(url: str) -> Any:
    """Return the JSON at a URL of the cluster; None if there is none."""
    # clusters are accessed as by Spark, never through an HTTP proxy
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=FETCH_TIMEOUT_S) as answer:
            return json.loads(answer.read(_LONGEST_ANSWER))
    except (OSError, ValueError):
        return None
