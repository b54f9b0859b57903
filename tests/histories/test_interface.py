"""Changes of the interface for apps of other packages that an app may not survive are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import models

from .example_app import describe, find_breaks


def rate(stars: int, remark: str = "") -> None: ...
def rate_with_option(stars: int, remark: str = "", *, by: Any = None, **more: Any) -> None: ...
def rate_required(stars: int, remark: str = "", *, by: Any) -> None: ...
def rate_without_remark(stars: int) -> None: ...
def rate_by_keyword(*, stars: int, remark: str = "") -> None: ...
def rate_with_all(stars: int, remark: str) -> None: ...
def rate_reordered(remark: str = "", stars: int = 0) -> None: ...


class Name(models.TextChoices):
    ASKED, GIVEN = "asked", "given"


class OtherName(models.TextChoices):
    ASKED, TAKEN = "asked", "taken"


@dataclass(kw_only=True)
class Extension:
    name: str
    sweep: Sequence[Callable[[], object]] = field(default=())


@dataclass(kw_only=True)
class OtherExtension:
    name: str
    sweep: Sequence[Callable[[int], object]] = field(default=())
    doctor: Sequence[Callable[[], object]] = field(default=())


@pytest.mark.parametrize(
    ("before", "after", "breaks"),
    [
        (rate, rate, []),
        (rate, rate_with_option, []),
        (rate, rate_required, ["by is required"]),
        (rate, rate_without_remark, ["remark is removed"]),
        (rate, rate_by_keyword, ["stars is changed", "remark is changed"]),
        (rate, rate_with_all, ["remark is changed"]),
        (rate_with_all, rate, []),
        (rate, rate_reordered, ["the order of parameters is changed"]),
        (Name, OtherName, ["without given"]),
        (Extension, OtherExtension, ["sweep is called differently"]),
    ],
)
def test_interface_comparison_reports_change_of_a_name(
    before: Any, after: Any, breaks: list[str]
) -> None:
    found = [*find_breaks({"a": describe(before)}, {"a": describe(after)})]
    assert found == [f"a: {each}" for each in breaks]


def test_interface_comparison_reports_removed_name() -> None:
    assert [*find_breaks({"a": describe(rate)}, {})] == ["a: removed"]


def test_interface_comparison_reports_new_parameter_of_overridden_method() -> None:
    path = "hitl_django.admin.panels.Panel.perform"
    found = [*find_breaks({path: describe(rate)}, {path: describe(rate_with_option)})]
    assert found == [f"{path}: by is added", f"{path}: more is added"]
