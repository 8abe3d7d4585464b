"""The site of `make docs`: each page has its place."""

from __future__ import annotations

import re

from tests.documents.page import DOCS, ROOT


def test_every_page_has_a_place_in_the_nav_and_every_place_a_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    placed = set(re.findall(r"\S+\.md\b", nav)) - {"reference/options.md"}
    folders = tuple(re.findall(r"\S+/$", nav, re.MULTILINE))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert placed == {page for page in pages if not page.startswith(folders)}
