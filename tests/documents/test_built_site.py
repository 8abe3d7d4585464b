"""The site that `make docs` builds: whole, without a dead link, and asking nothing of other hosts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from tests.documents.page import ROOT
from tests.servers.chromium import browser

TOOLS = ROOT / "build" / "docs-venv"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TOOLS / ".complete").exists(), reason="what builds the site isn't here: make docs brings it"),
]
FETCHED = {"src", "srcset", "poster", "data", "action", "background"}
"""What a browser follows by itself, besides the links of a <link>."""
LINKED = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does; in strict mode a link or an anchor that leads nowhere is an error."""
    target = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "docs/_site/options.py", ROOT / "build/docs/options.md"], check=True, cwd=ROOT)
    command = [TOOLS / "bin" / "mkdocs", "build", "--quiet", "--site-dir", target]
    environment = {"NO_MKDOCS_2_WARNING": "1", "TMPDIR": str(target.parent)}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return target


class Fetches(HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kinds = set((dict(attrs).get("rel") or "").split())
        wanted = FETCHED | {"href"} if tag == "use" or (tag == "link" and kinds & LINKED) else FETCHED
        self.found += [value for name, value in attrs if name in wanted and value]


def foreign(text: str) -> list[str]:
    fetches = Fetches()
    fetches.feed(text)
    styles = re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", text)
    return [one for one in [*fetches.found, *("".join(found) for found in styles)] if urlsplit(one).netloc]


def test_the_search_for_what_is_fetched_finds_it() -> None:
    assert foreign('<script src="//cdn.example/a.js"></script><a href="https://elsewhere.example">') == [
        "//cdn.example/a.js"
    ]
    assert foreign('<link rel="stylesheet" href="https://fonts.example/a.css">') == ["https://fonts.example/a.css"]
    assert foreign("a { background: url(https://pictures.example/a.png) }") == ["https://pictures.example/a.png"]
    assert foreign('<link rel="next" href="https://a.example"><img src="../a.svg">') == []


def test_pages_and_styles_name_nothing_of_another_host_that_a_browser_fetches(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(files) > 100
    assert {str(file): found for file in files if (found := foreign(file.read_text("utf-8")))} == {}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()


def test_a_browser_asks_no_other_host_finds_words_in_both_languages_and_fits_a_phone(served: str) -> None:
    with browser() as chromium:
        page = chromium.new_page(viewport={"width": 390, "height": 800})
        asked: set[str] = set()
        errors: list[str] = []
        page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
        page.on("pageerror", lambda error: errors.append(str(error)))
        for path in (
            "",
            "getting-started.zh/",
            "tutorial/",
            "concepts/",
            "pyflink/",
            "savepoints/",
            "reference/options/",
            "reference/api/pystate.datastream/",
        ):
            page.goto(served + path, wait_until="networkidle")
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{path} is wider than a phone"
        page.set_viewport_size({"width": 1280, "height": 800})
        for words in ("savepoint rescale", "保存点"):
            page.goto(served, wait_until="networkidle")
            page.locator(".md-search__input").click()
            page.locator(".md-search__input").press_sequentially(words)
            page.keyboard.press("End")  # the search heeds keys, and Chinese is typed without one
            page.locator(".md-search-result__item").first.wait_for(timeout=60_000)
            found = page.locator(".md-search-result__link").first.get_attribute("href")
            assert found is not None
            assert found.startswith(served)
            assert "/repository/" not in found, "files that pages link to are not what people search"
            assert ("zh" in found) == ("保存点" in words)
        assert asked == {urlsplit(served).netloc}
        assert errors == []
