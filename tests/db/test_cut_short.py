"""Operations that are interrupted before their first statement: no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from hitl_django import models, services, testing
from hitl_django.checkpoints import DjangoSaver, ThreadKey, maintenance
from hitl_django.engine.savers.checkpoint import Commit, TaskWrites
from hitl_django.graph_registry import compatibility, registry
from hitl_django.models import Checkpoint, GraphShape, Interrupt, Run, Thread
from hitl_django.worker import retention
from tests.checkpoints.test_conformance import TASK, checkpoint, place

pytestmark = pytest.mark.django_db(transaction=True)


class CutError(Exception):
    """Error that interrupts an operation between two statements."""


@contextmanager
def cut_before(number: int) -> Iterator[None]:
    """Raise CutError before the write with this number."""
    written: list[str] = []

    def watch(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE", "WITH")):
            if len(written) == number:
                raise CutError
            written.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(watch):
        yield


def rows() -> dict[str, list[str]]:
    found = {
        name: sorted(map(str, getattr(models, name).objects.values_list()))
        for name in models.__all__
    }
    return found | {"Group": sorted(Group.objects.values_list("name", flat=True))}


def cut_everywhere(act: Callable[[], object], *, least: int) -> None:
    """Interrupt an operation before each of its writes, and then complete the operation."""
    before = rows()
    for number in range(50):
        try:
            with cut_before(number):
                act()
        except CutError:
            assert rows() == before, f"cut before write {number}"
            continue
        assert number >= least
        assert rows() != before
        return
    raise AssertionError("it never ends")


def told(at: int, on: Any, **metadata: Any) -> Commit:
    stored = checkpoint({"log": [at]}, {"log": at})
    writes = [TaskWrites(TASK, "", [("log", "x" * 5000)])]
    return Commit(on, writes, stored, {"source": "loop", "step": at, **metadata}, {"log": at})


def history(count: int = 5, **metadata: Any) -> DjangoSaver:
    saver, on = DjangoSaver(), place()
    for at in range(1, count + 1):
        saver.commit(told(at, on, **metadata))
        on = saver.get_tuple(place()).config  # type: ignore[union-attr]
    return saver


def test_first_commit_of_thread_failing_at_any_statement_is_rolled_back() -> None:
    at_once = connection.vendor == "postgresql"
    cut_everywhere(lambda: DjangoSaver().commit(told(1, place())), least=1 if at_once else 3)


def test_copy_thread_failing_at_any_statement_is_rolled_back() -> None:
    saver = history()
    cut_everywhere(lambda: saver.copy_thread("t", "copy"), least=4)


@pytest.mark.parametrize("act", ["delete_thread", "prune"])
def test_delete_thread_failing_at_any_statement_is_rolled_back(act: str) -> None:
    saver = history()
    if act == "prune":
        cut_everywhere(lambda: saver.prune(["t"], strategy="delete"), least=4)
    else:
        cut_everywhere(lambda: saver.delete_thread("t"), least=4)


@pytest.mark.parametrize("act", ["prune", "delete_for_runs"])
def test_prune_and_delete_for_runs_failing_at_any_statement_are_rolled_back(
    act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 2)
    saver = history(run_id="one")
    saver.commit(told(6, saver.get_tuple(place()).config, run_id="two"))  # type: ignore[union-attr]
    if act == "prune":
        cut_everywhere(lambda: saver.prune(["t"]), least=4)
    else:
        cut_everywhere(lambda: saver.delete_for_runs(["one"]), least=4)
    assert Checkpoint.objects.count() == 1


def test_prune_with_strategy_delete_checks_active_runs_again_inside_its_transaction() -> None:
    saver = history()
    with CaptureQueriesContext(connection) as queries:
        saver.prune(["t"], strategy="delete")
    said = [query["sql"] for query in queries]
    begins = next(at for at, sql in enumerate(said) if sql.startswith("BEGIN"))
    asked = [at for at, sql in enumerate(said) if f'FROM "{Run._meta.db_table}"' in sql]
    assert asked[0] < begins < asked[1]
    assert sum(sql.startswith("COMMIT") for sql in said) == 1


def ended(*answers: str) -> Run:
    """Create a run with many events and a decision that ended long ago."""
    with testing.inline() as advance:
        info = services.start("approval", {"text": "x"})
        advance()
        services.decide(Interrupt.objects.get(run=info.id).pk, "respond", {"text": "y"})
        advance()
    Run.objects.filter(pk=info.id).update(finished_at=Now() - timedelta(days=9))
    Thread.objects.filter(runs=info.id).update(ended_at=Now() - timedelta(days=9))
    return Run.objects.select_related("thread").get(pk=info.id)


def test_erase_thread_failing_at_any_statement_is_rolled_back() -> None:
    run = ended()
    cut_everywhere(lambda: services.erase_thread(run.thread.thread_id), least=10)


def test_delete_events_failing_at_any_statement_is_rolled_back() -> None:
    ended()
    cut_everywhere(lambda: retention.delete_events(7, 10), least=2)


def test_delete_ended_failing_at_any_statement_is_rolled_back() -> None:
    ended()
    cut_everywhere(lambda: retention.delete_ended(7, 10), least=5)
    ended()
    with CaptureQueriesContext(connection) as queries:
        retention.delete_ended(7, 10)
    said = [query["sql"] for query in queries]
    begins = next(at for at, sql in enumerate(said) if sql.startswith("BEGIN"))
    looked = [at for at, sql in enumerate(said) if "ended_at" in sql and "EXISTS" in sql]
    assert looked
    assert all(at > begins for at in looked)


def test_adopt_structure_failing_at_any_statement_stores_both_rows_or_none() -> None:
    run = ended()
    key = ThreadKey(run.thread.pk, run.thread.thread_id, run.thread.epoch)
    Run.objects.update(fingerprint="")
    GraphShape.objects.all().delete()

    def take_up() -> None:
        compatibility.clear_structures()
        compatibility.adopt_structure(run.pk, key, "", registry.get_graph("approval"))

    cut_everywhere(take_up, least=2)
    assert Run.objects.get().fingerprint == GraphShape.objects.get().fingerprint


def test_store_structure_repeated_after_failed_attempt_stores_the_graph_structure() -> None:
    compatibility.clear_structures()
    with pytest.raises(CutError), cut_before(0):
        compatibility.store_structure(registry.get_graph("approval"))
    compatibility.store_structure(registry.get_graph("approval"))
    assert GraphShape.objects.exists()


def test_rows_and_result_of_transact_are_committed_in_one_transaction() -> None:
    saver = history(1)
    on = saver.get_tuple(place()).config  # type: ignore[union-attr]

    def act() -> int:
        Group.objects.create(name="of the call")
        return 2

    def together() -> None:
        result, error = DjangoSaver().together(act, lambda at: told(at, on))
        if error is not None:
            raise error
        assert result == 2

    cut_everywhere(together, least=2)


def test_failed_transact_function_is_rolled_back_and_its_error_returned() -> None:
    error = LookupError("no such order")

    def act() -> int:
        Group.objects.create(name="of the call")
        raise error

    assert DjangoSaver().together(act, lambda at: told(at, place())) == (None, error)
    assert not Group.objects.exists()
    assert not Checkpoint.objects.exists()
