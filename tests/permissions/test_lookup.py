"""The lookup of visible objects that services, admin and API share."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from hitl_django.errors import NotAllowedError, RunNotFound
from hitl_django.models import Interrupt, ReviewItem, Run, Thread
from hitl_django.permissions import (
    ModelPermissionPolicy,
    find_row,
    get_policy,
    refuse_unless_may,
    select_visible,
    select_visible_through,
)

from .conftest import World
from .people import PEOPLE


class OnlyOne(ModelPermissionPolicy):
    """Policy that shows threads of only one graph."""

    def visible_threads(self, user: Any, threads: QuerySet[Thread]) -> QuerySet[Thread]:
        return threads.filter(graph="open")


@pytest.fixture
def threads(db: None, settings: Any) -> list[Thread]:
    settings.HITL = {"POLICY": f"{__name__}.OnlyOne"}
    return [Thread.objects.create(thread_id=name, graph=name) for name in ("open", "shut")]


def test_select_visible_without_user_returns_every_row(threads: list[Thread]) -> None:
    every = Thread.objects.all()
    assert select_visible(every, None) is every
    runs = Run.objects.all()
    assert select_visible_through(runs, "thread", None) is runs


@pytest.mark.any_database
def test_select_visible_through_thread_returns_rows_of_visible_threads_only(
    threads: list[Thread],
) -> None:
    runs = [Run.objects.create(thread=thread, graph=thread.graph) for thread in threads]
    seen = select_visible_through(Run.objects.all(), "thread", AnonymousUser())
    assert [*seen] == runs[:1]


def test_select_visible_for_user_without_permission_takes_no_query(
    world: World, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        assert not select_visible_through(Run.objects.all(), "thread", AnonymousUser())


@pytest.mark.parametrize("model", [Interrupt, ReviewItem])
def test_select_visible_for_proxy_model_returns_the_rows_of_its_model(
    world: World, model: Any
) -> None:
    user = world.crowd.user(PEOPLE["superuser"])
    assert select_visible(model.objects.all(), user).count() == model.objects.count() > 0
    assert not select_visible(model.objects.all(), AnonymousUser())


@pytest.mark.any_database
@pytest.mark.parametrize("key", ["no id", "", None, 7, b"x", [], {}, object()])
def test_find_row_with_invalid_key_raises_run_not_found(db: None, key: Any) -> None:
    with pytest.raises(RunNotFound, match="Run not found"):
        find_row(Run.objects.all(), RunNotFound, pk=key)


def test_denied_permission_raises_error_with_row_and_thread_id(world: World) -> None:
    run = Run.objects.select_related("thread")[0]
    refuse_unless_may(None, get_policy().may_operate, run, "No.")
    with pytest.raises(NotAllowedError, match="No") as refused:
        refuse_unless_may(AnonymousUser(), get_policy().may_operate, run, "No.")
    assert (refused.value.thread_id, refused.value.subject) == (run.thread.thread_id, str(run.pk))
