"""The page of a package index: rendered description and classifiers."""

from __future__ import annotations

import re
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from readme_renderer import markdown
from trove_classifiers import classifiers

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def metadata() -> Message:
    builder = WheelBuilder(str(ROOT))
    text = builder.config.core_metadata_constructor(builder.metadata)
    return message_from_bytes(text.encode())


@pytest.fixture(scope="module")
def page(metadata: Message) -> str:
    assert metadata["Description-Content-Type"] == "text/markdown"
    rendered = markdown.render(metadata.get_payload(decode=True).decode())
    assert rendered is not None
    return str(rendered)


def test_package_index_page_links_have_targets(page: str) -> None:
    targets = re.findall(r'(?:href|src)="([^"]*)"', page)
    anchors = set(re.findall(r'\b(?:id|name)="([^"]+)"', page))
    within = {target for target in targets if target.startswith("#")}
    assert {target[1:] for target in within} <= anchors
    outside = set(targets) - within
    assert [target for target in outside if not target.startswith("https://")] == []


def test_package_index_page_shows_relative_readme_links_as_text_with_path(page: str) -> None:
    assert "Tutorial (<code>docs/tutorial.md</code>)" in page


def test_package_index_page_contains_headings_and_tables_of_the_readme(page: str) -> None:
    headings = re.findall(r"(?m)^## (.+)$", (ROOT / "README.md").read_text())
    assert headings
    for heading in headings:
        assert re.search(rf"<h2[^>]*>{heading}.*</h2>", page), heading
    assert "<table>" in page
    assert '<pre lang="python">' in page


def test_package_classifiers_exist_and_name_supported_django_versions(metadata: Message) -> None:
    given = metadata.get_all("Classifier") or []
    assert set(given) <= classifiers
    assert given == sorted(given)
    for version in ("5.2", "6.0", "6.1"):
        assert f"Framework :: Django :: {version}" in given
