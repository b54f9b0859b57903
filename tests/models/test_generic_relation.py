"""A GenericRelation from a project's model to the threads about its objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.contrib.contenttypes.fields import GenericRelation

from hitl_django import services
from hitl_django.models import Thread

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Iterator[Any]:
    """Return a group, whose model has the relation from the guide to models."""
    relation = GenericRelation(
        Thread, content_type_field="subject_type", object_id_field="subject_id"
    )
    relation.contribute_to_class(Group, "hitl_threads")
    yield Group.objects.create(name="Night shift")
    Group._meta.private_fields.remove(relation)
    del Group.hitl_threads
    Group._meta._expire_cache()


def test_generic_relation_returns_the_threads_of_an_object(
    advance: Callable[[], int], team: Any
) -> None:
    run = services.start("approval", {"text": "Owls"}, subject=team)
    services.start("approval", {"text": "Larks"}, subject=Group.objects.create(name="Day shift"))
    advance()
    assert team.hitl_threads.get().thread_id == run.thread_id
    assert Group.objects.filter(hitl_threads__runs=run.id).get() == team


def test_deleting_an_object_with_generic_relation_deletes_its_threads(
    advance: Callable[[], int], team: Any
) -> None:
    services.start("approval", {"text": "Owls"}, subject=team)
    advance()
    team.delete()
    assert not Thread.objects.exists()
