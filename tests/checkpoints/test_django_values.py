"""Errors for Django objects that a node returns as state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy

from hitl_django.errors import InvalidUpdateError, UnserializableError
from tests.engine.faults import PLACES, Trial, said_of

OF_DJANGO: dict[str, tuple[Callable[[], Any], str]] = {
    "model": (lambda: User(username="ann"), "User"),
    "queryset": (lambda: User.objects.none(), "QuerySet"),
    "class": (lambda: User, "ModelBase"),
    "lazy text": (lambda: gettext_lazy("later"), "__proxy__"),
}

in_each_place = pytest.mark.parametrize("place", PLACES)


@in_each_place
@pytest.mark.parametrize("name", OF_DJANGO)
def test_node_returning_django_object_instead_of_update_fails_with_invalid_update_error(
    name: str, place: str
) -> None:
    make, words = OF_DJANGO[name]
    trial = Trial(lambda state: make(), place)
    error = trial.failure()
    assert isinstance(error, InvalidUpdateError)
    assert "'bad'" in said_of(error)
    assert words in str(error) or name == "class"
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@in_each_place
@pytest.mark.parametrize("name", OF_DJANGO)
def test_node_returning_django_object_as_state_value_fails_with_error_naming_path(
    name: str, place: str
) -> None:
    make, words = OF_DJANGO[name]
    trial = Trial(lambda state: {"x": make()}, place)
    error = trial.failure()
    assert isinstance(error, UnserializableError)
    assert "'bad'" in str(error)
    assert "$.x" in str(error)
    assert words in str(error)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()
