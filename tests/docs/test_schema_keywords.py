"""The guide states the treatment of each keyword of JSON Schema."""

from __future__ import annotations

import pathlib
import re

import pytest
from jsonschema import Draft7Validator
from jsonschema_specifications import REGISTRY

GUIDE = pathlib.Path(__file__).parents[2] / "docs/guides/policies.md"

pytestmark = pytest.mark.any_database


def test_schema_guide_contains_every_json_schema_keyword() -> None:
    keywords = set(Draft7Validator.META_SCHEMA["properties"])
    for uri in REGISTRY:
        if "/2020-12/meta/" in uri:
            keywords |= set(REGISTRY[uri].contents["properties"])
    assert {"contains", "$dynamicRef", "unevaluatedItems", "deprecated", "const"} <= keywords
    section = GUIDE.read_text().split("### Response schemas")[1].split("\n## ")[0]
    assert keywords <= set(re.findall(r"`([$\w]+)`", section))
