"""The start of an application on YARN: Spark waits for its application master without a word, for as long as that takes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.errors import JobExecutionError
from pystate.runtime.spark.applications.standalone_master import Fetch, fetch_json
from pystate.runtime.spark.applications.yarn_resource_manager import (
    YARN,
    look_at_yarn,
    starting_application,
    yarn_addresses,
    yarn_conf_dirs,
)

_LOOK_EVERY_S = 3.0
_APPLICATION = re.compile(r"\bapplication_\d+_\d+\b")


@contextmanager
def watched_start(
    configuration: Configuration, name: str, say: Callable[[str], object], fetch: Fetch = fetch_json
) -> Iterator[None]:
    """Tell what an application waits for in YARN, and how it ended if it doesn't start; nothing on other masters.

    Args:
        configuration: The options in force.
        name: The name under which it is submitted.
        say: Is called with sentences for users.
        fetch: Fetches a page's JSON.

    Raises:
        ConfigurationError: Nothing says where YARN is.
        JobExecutionError: YARN has ended it.
    """
    if configuration.get(SparkOptions.MASTER) != YARN:
        yield
        return
    pages = yarn_addresses(yarn_conf_dirs(configuration)).pages
    over = threading.Event()
    thread = threading.Thread(target=_tell, args=(pages, name, say, fetch, over), name="yarn-start", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:  # py4j and PySpark have many classes for a Spark that doesn't start
        named = _APPLICATION.search(str(error))
        view = None if named is None else look_at_yarn(pages, named[0], fetch)
        if view is None or named is None or view.knows(named[0]):
            raise
        hint = f"yarn logs -applicationId {named[0]}"
        raise JobExecutionError(view.lost_sentence(named[0]), where=SparkOptions.MASTER.key, hint=hint) from error
    finally:
        over.set()


def _tell(pages: tuple[str, ...], name: str, say: Callable[[str], object], fetch: Fetch, over: threading.Event) -> None:
    said = ""
    while not over.wait(_LOOK_EVERY_S):
        view = starting_application(pages, name, fetch)
        if view is None or view.application_id is None or over.is_set():
            continue
        sentence = f"Waiting for YARN to start the application: {view.cores_sentence(view.application_id, 0)}."
        if sentence != said:
            say(sentence)
            said = sentence
