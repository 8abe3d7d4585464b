"""The site of `make docs`: each page has its place."""

from __future__ import annotations

import importlib.util
import re

from tests.documents.page import DOCS, ROOT


def test_every_page_has_a_place_in_the_nav_and_every_place_a_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    placed = set(re.findall(r"\S+\.md\b", nav)) - {"reference/options.md"}
    folders = tuple(re.findall(r"\S+/$", nav, re.MULTILINE))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert placed == {page for page in pages if not page.startswith(folders)}


def test_the_pictures_are_those_of_their_text() -> None:
    images = DOCS / "images"
    spec = importlib.util.spec_from_file_location("render_concepts", images / "render_concepts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    drawn = module.pictures((images / "concepts.txt").read_text("utf-8"))
    assert drawn == {path.stem: path.read_text("utf-8") for path in images.glob("concept-*.svg")}
    page = (DOCS / "concepts.md").read_text("utf-8")
    assert all(f"images/{name}.svg" in page for name in drawn)
