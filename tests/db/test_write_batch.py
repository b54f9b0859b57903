"""What is written together is written whole, or not at all."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection, models, transaction
from django.db.models import Q

from hitl_django.db.prepared_query import Parameter, PreparedUpdate
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Thread

pytestmark = pytest.mark.django_db(transaction=True)

RENAME = PreparedUpdate(
    Thread,
    Q(thread_id=Parameter("name", models.TextField())),
    lambda: {"graph": Parameter("graph", models.TextField())},
)


class Missing(Exception):
    """There is no such row."""


def batch(*names: str) -> WriteBatch:
    """Returns what gives these threads another graph, all or none."""
    made = WriteBatch("default")
    for name in names:
        made.guard(RENAME, {"name": name, "graph": "new"}, Missing)
    return made


@pytest.fixture
def threads() -> list[str]:
    names = [str(uuid.uuid4()) for _ in range(2)]
    for name in names:
        Thread.objects.create(thread_id=name, graph="old")
    return names


def graphs() -> list[str]:
    return list(Thread.objects.order_by("pk").values_list("graph", flat=True))


def test_all_that_was_required_is_written(threads: list[str]) -> None:
    assert batch(*threads).commit() == [(), ()]
    assert graphs() == ["new", "new"]


@pytest.mark.database("sqlite")
def test_nothing_is_written_where_a_later_row_is_missing(threads: list[str]) -> None:
    with pytest.raises(Missing):
        batch(threads[0], "nobody").commit()
    assert graphs() == ["old", "old"]
    assert not connection.connection.in_transaction


def test_nothing_stays_of_a_transaction_where_a_later_row_is_missing(threads: list[str]) -> None:
    with pytest.raises(Missing), transaction.atomic():
        batch(threads[0], "nobody").run()
    assert graphs() == ["old", "old"]


def test_what_follows_a_missing_row_is_not_written_nor_done(threads: list[str]) -> None:
    done: list[str] = []
    made = WriteBatch("default")
    for name in ("nobody", threads[0]):
        made.guard(RENAME, {"name": name, "graph": "new"})
    made.before_commit(lambda: done.append("within"))
    made.after_write(lambda: done.append("behind"))
    assert made.commit() == []
    assert (graphs(), done) == (["old", "old"], [])


def test_what_is_to_be_done_is_done_once_it_is_written(threads: list[str]) -> None:
    seen: list[Any] = []
    made = batch(*threads)
    made.before_commit(lambda: seen.append(("within", connection.in_atomic_block, graphs())))
    made.after_write(lambda: seen.append(("behind", graphs())))
    made.commit()
    assert seen == [("within", True, ["new", "new"]), ("behind", ["new", "new"])]


@pytest.mark.database("sqlite")
def test_what_fails_as_it_commits_leaves_no_transaction_open(threads: list[str]) -> None:
    made = batch(*threads)

    def fail() -> None:
        raise KeyboardInterrupt

    made.before_commit(fail)
    with pytest.raises(KeyboardInterrupt):
        made.commit()
    assert graphs() == ["old", "old"]
    assert not connection.connection.in_transaction
