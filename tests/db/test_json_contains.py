"""Containment of JSON objects in text columns, equal on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django.db.json_contains import JSONContains
from hitl_django.models import Thread

pytestmark = pytest.mark.django_db

STORED: dict[str, Any] = {
    "text": '"quoted" ü \\ %',
    "number": 7,
    "big": 10**40,
    "flag": True,
    "nothing": None,
    "tags": ["a", "b", {"x": 1, "y": 2}, [3]],
    "deep": {"er": {"text": "here"}, "list": []},
    'ke"y\\': "odd",
    "looks": '{"x": 1}',
}


#: Search patterns, and whether each matches.
CASES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"text": '"quoted" ü \\ %', "number": 7.0, "flag": True, "nothing": None}, True),
    ({"big": 10**40}, True),
    ({"big": 10**39}, False),
    ({"tags": ["b", {"y": 2}, [3]]}, True),
    ({"tags": []}, True),
    ({"tags": ["c"]}, False),
    ({"tags": "a"}, False),
    ({"deep": {"er": {"text": "here"}, "list": []}}, True),
    ({"deep": {}}, True),
    ({"deep": {"text": "here"}}, False),
    ({"looks": {"x": 1}}, False),
    ({"looks": []}, False),
    ({'ke"y\\': "odd"}, True),
    ({"text": "here"}, False),
    ({"number": "7"}, False),
    ({"number": 70}, False),
    ({"flag": 1}, False),
    ({"flag": "true"}, False),
    ({"nothing": "null"}, False),
    ({"absent": None}, False),
]


def test_json_contains_matches_only_metadata_with_the_given_members_and_values() -> None:
    Thread.objects.create(thread_id="one", metadata=STORED)
    for wanted, fits in CASES:
        condition = JSONContains("metadata", wanted)
        assert Thread.objects.filter(condition).exists() is fits, wanted
        assert Thread.objects.exclude(condition).exists() is not fits, wanted
