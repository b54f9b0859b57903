"""Saved filters: owners, sharing and stored parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from hitl_django import services
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.models import SavedFilter
from hitl_django.services.reviews import saved_filters
from tests.admin.conftest import make_interrupt


@pytest.fixture
def ann(user: Callable[..., User]) -> User:
    return user("ann", "view_interrupt")


@pytest.fixture
def lead(user: Callable[..., User]) -> User:
    return user("lead", "view_interrupt", "share_savedfilter")


def names(user: Any) -> list[str]:
    return [one.name for one in services.list_saved_filters(user)]


def test_clean_query_returns_only_known_parameters_with_valid_values() -> None:
    given = {"show": "mine", "q": "x" * 201, "graph": 3, "next": "//evil.example", "p": "2"}
    assert services.clean_query(given) == {"show": "mine"}
    assert services.clean_query(["show"]) == {}


def test_saved_filter_with_invalid_stored_parameters_is_listed_without_them(ann: User) -> None:
    SavedFilter.objects.create(owner=ann, name="a", query={"show": "mine", "evil": "x", "q": []})
    assert services.list_saved_filters(ann)[0].query == {"show": "mine"}


def test_saved_filter_is_listed_for_another_user_only_if_shared(ann: User, lead: User) -> None:
    services.save_filter("Hers", {"show": "mine"}, by=ann)
    services.save_filter("Shared", {"show": "unclaimed"}, shared=True, by=lead)
    services.save_filter("The lead's", {"show": "unclaimed"}, by=lead)
    assert names(ann) == ["Hers", "Shared"]
    assert names(lead) == ["Shared", "The lead's"]


def test_saved_filters_of_the_user_are_listed_before_shared_filters_up_to_the_limit(
    ann: User, lead: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_filters, "MAX_LISTED", 2)
    services.save_filter("z", {"show": "mine"}, by=ann)
    for name in ("a", "b", "c"):
        services.save_filter(name, {"show": "unclaimed"}, shared=True, by=lead)
    assert names(ann) == ["z", "a"]


def test_saving_shared_filter_without_permission_raises_not_allowed_error(ann: User) -> None:
    with pytest.raises(NotAllowedError):
        services.save_filter("x", {"show": "mine"}, shared=True, by=ann)
    assert not SavedFilter.objects.exists()


def test_shared_filter_for_graph_without_visible_interrupts_is_not_listed(
    ann: User, lead: User
) -> None:
    services.save_filter("Secret", {"graph": "approval"}, shared=True, by=lead)
    assert names(ann) == []
    assert names(lead) == ["Secret"]
    make_interrupt({}, graph="approval")
    assert names(ann) == ["Secret"]


def test_saving_filter_under_existing_name_replaces_its_query(ann: User) -> None:
    first = services.save_filter("a", {"show": "mine"}, by=ann)
    assert services.save_filter("a", {"show": "unclaimed"}, by=ann) == first
    assert services.list_saved_filters(ann)[0].query == {"show": "unclaimed"}


@pytest.mark.parametrize(
    ("name", "query"), [(" ", {"q": "x"}), ("x" * 61, {"q": "x"}), ("a", {}), ("a", {"p": "2"})]
)
def test_saving_filter_without_name_or_parameters_raises_invalid_input_error(
    name: str, query: Any, ann: User
) -> None:
    with pytest.raises(InvalidInputError):
        services.save_filter(name, query, by=ann)


def test_saving_more_filters_than_the_limit_raises_invalid_input_error(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_filters, "MAX_OWN", 2)
    for name in ("a", "b"):
        services.save_filter(name, {"q": "x"}, by=ann)
    services.save_filter("b", {"q": "y"}, by=ann)
    with pytest.raises(InvalidInputError):
        services.save_filter("c", {"q": "x"}, by=ann)


def test_remove_filter_by_user_without_ownership_or_permission_returns_false(
    ann: User, lead: User
) -> None:
    own = services.save_filter("own", {"q": "x"}, by=ann)
    theirs = services.save_filter("theirs", {"q": "x"}, by=lead)
    shared = services.save_filter("shared", {"q": "x"}, shared=True, by=lead)
    assert not services.remove_filter(theirs, by=ann)
    assert not services.remove_filter(shared, by=ann)
    assert not services.remove_filter(own, by=lead)
    assert services.remove_filter(own, by=ann)
    assert services.remove_filter(shared, by=lead)
    assert SavedFilter.objects.get().pk == theirs
