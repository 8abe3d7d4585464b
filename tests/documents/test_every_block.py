"""Every block of code on a page is run by a test, or stands here with the reason why it isn't."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from tests.documents.page import DOCS, ROOT, Block, blocks

PAGES = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "design").glob("*.md")), ROOT / "README.md", ROOT / "README.zh.md"]

TYPED = {
    "cli.md": "tests/documents/test_cli_page.py",
    "getting-started.md": "tests/documents/test_getting_started_page.py",
    "getting-started.zh.md": "tests/documents/test_getting_started_page.py",
    "tutorial.md": "tests/documents/test_tutorial.py",
}
"""Pages whose blocks `console` are typed, and must show what the page shows."""

CLUSTER = "needs a cluster; tests/e2e/clusters runs such commands"
WORDS = "names that only the reader knows: the commands and their options are compared with the application's"
NOT_RUN = {
    "README.md": (1, "the first look: tests/e2e/programs runs the example"),
    "README.zh.md": (1, "the first look: tests/e2e/programs runs the example"),
    "checkpointing.md": (1, WORDS),
    "cli.md": (3, "commands that end in a debugger, a browser, a picture or a shell's start"),
    "cluster.md": (7, CLUSTER),
    "connectors-own.md": (1, "installs a distribution: tests/connectors does it in an environment of its own"),
    "databases.md": (1, "SQL for a database's owner; the sink makes the same table, which tests/connectors/sql reads"),
    "dev.md": (1, "a session without an end: tests/cli/commands/test_dev.py"),
    "from-kafka-streams.md": (1, "the Java of Kafka Streams, beside which ours runs"),
    "job-manager.md": (4, "job managers and their addresses: tests/cli/commands/test_cluster.py"),
    "kubernetes.md": (
        9,
        "needs Kubernetes, helm and buildah: tests/deploy has the chart and the image; the resource is test_operator.py's",
    ),
    "lakehouse.md": (1, "installs a distribution"),
    "metrics.md": (4, "figures of one run, and a file of Prometheus's"),
    "queryable-state.md": (2, "figures of one run: tests/cli/commands/test_query.py"),
    "releases.md": (1, "installs without a network: tests/release/test_clean_installs.py"),
    "runbook.md": (10, WORDS),
    "savepoints.md": (7, "snapshots of one day; tests/cli/commands/snapshots has such ones"),
    "security.md": (6, "tokens, proxies and a campaign: tests/security, tests/ops/jobmanager/web/test_reverse_proxy.py"),
    "sinks.md": (2, WORDS),
    "spark-submit.md": (6, "needs spark-submit and, in part, a cluster; tests/e2e/clusters runs the first"),
    "storage.md": (1, "needs HDFS"),
}
"""How many blocks of a page are no pictures and no outputs, and are run by no test; and why."""

CODE = frozenset(("console", "java", "nginx", "sh", "sql", "yaml"))


def is_not_run(page: str, block: Block) -> bool:
    """Return whether a block can be typed or run, and is run by no test of its language."""
    if block.language in ("python", "toml"):  # test_snippets.py, or the tests that it names
        return False
    if page == "rest.md" or (block.language == "console" and page in TYPED):
        return False
    return block.language in CODE or any(line.startswith("$ ") for line in block.text.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_block_is_run_or_is_known_not_to_be(page):
    found = sum(is_not_run(page.name, block) for block in blocks(page.read_text("utf-8")))
    assert found == NOT_RUN.get(page.name, (0, ""))[0]


def test_the_tests_that_type_pages_name_them():
    for page, test in TYPED.items():
        assert page in (ROOT / test).read_text("utf-8")
    assert NOT_RUN.keys() <= {page.name for page in PAGES}
    named = {path for _, why in NOT_RUN.values() for path in re.findall(r"tests/[\w/]+(?:\.py)?", why)}
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_says_that_it_is_python(page):
    for block in blocks(page.read_text("utf-8")):
        if not block.language and "\n" in block.text.strip():
            try:
                kinds = Counter(type(one) for one in ast.parse(block.text).body)
            except SyntaxError:
                continue
            assert not kinds.keys() & {ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef}, block.line
