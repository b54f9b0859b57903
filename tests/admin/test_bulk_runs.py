"""Bulk retry and bulk cancellation of runs, each with its own result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from hitl_django import services
from hitl_django.admin.runs import bulk_run_actions
from hitl_django.models import AuditEntry, Interrupt, Run
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.services.runs import operate
from tests import graphs

from .browsing import post_of, text_of
from .conftest import list_of, page_of
from .test_queue import words

MANY = reverse("admin:hitl_django_run_many")
RUNS = list_of("run")
Advance = Callable[[], int]
Browse = Callable[[str], Client]
Asked = Callable[..., Interrupt]


@pytest.fixture
def operator(browse: Browse) -> Client:
    return browse("operator")


@pytest.fixture
def failed(advance: Advance) -> Iterator[list[Run]]:
    """Create three failed runs."""
    graphs.FAILING.add("now")
    for number in range(3):
        services.start("fragile", {"count": number}, key=f"fragile {number}")
    advance()
    graphs.FAILING.clear()
    yield list(Run.objects.order_by("created_at"))
    graphs.FAILING.clear()


def select(rows: list[Run], verb: str = "retry", **more: Any) -> dict[str, Any]:
    return {"item": [str(row.pk) for row in rows], "verb": verb, **more}


def confirmed(page: Any, **more: str) -> dict[str, Any]:
    form = text_of(page).split(' class="hitl-work"')[1].split("</form>")[0]
    return {**post_of(form), **more}


def states() -> list[str]:
    return list(Run.objects.order_by("created_at").values_list("state", flat=True))


def test_bulk_retry_page_before_confirmation_lists_selected_runs_and_retries_none(
    operator: Client, failed: list[Run]
) -> None:
    listed = text_of(operator.get(RUNS))
    for row in failed:
        assert f'name="item" value="{row.pk}" aria-label="Select “fragile {row.key}”"' in listed
    page = operator.post(RUNS, select(failed[:2]))
    assert "2 runs to retry" in words(page)
    assert confirmed(page)["item"] == [str(row.pk) for row in reversed(failed[:2])]
    assert states() == ["failed"] * 3


def test_bulk_retry_with_a_run_already_retried_queues_the_remaining_runs(
    operator: Client, failed: list[Run], advance: Advance
) -> None:
    page = operator.post(RUNS, select(failed))
    services.retry(failed[1].pk)  # between the list and the bulk page
    done = operator.post(MANY, confirmed(page))
    assert "2 runs queued." in words(done)
    assert "Only failed or parked runs can be retried." in words(done)
    made = AuditEntry.objects.filter(verb="retry", via="admin")
    assert {entry.subject for entry in made} == {str(failed[0].pk), str(failed[2].pk)}
    assert {entry.actor_label for entry in made} == {"operator"}
    advance()
    assert states() == ["succeeded"] * 3


def test_bulk_run_action_page_lists_inapplicable_runs_with_reasons_and_does_not_select_them(
    operator: Client, failed: list[Run], asked: Asked, advance: Advance
) -> None:
    thread = failed[0].thread.thread_id
    services.start("fragile", {"count": 9}, thread_id=thread)
    waiting = asked().run
    page = operator.post(RUNS, select([*failed, waiting]))
    assert "2 runs to retry" in words(page)
    left_out = words(page).split("Skipped")[1]
    assert "This thread has a newer run." in left_out
    assert "Only failed or parked runs can be retried." in left_out
    assert "Waiting for review" in left_out
    services.cancel(waiting.pk)
    page = operator.post(RUNS, select([waiting], "cancel"))
    assert "None of these runs can be cancelled." in words(page)
    assert "This run has already ended." in words(page)
    assert 'name="item"' not in text_of(page)


def test_bulk_retry_of_superseded_and_deleted_runs_shows_the_reason_per_run(
    operator: Client, failed: list[Run]
) -> None:
    posted = confirmed(operator.post(RUNS, select(failed)))
    services.start("fragile", {"count": 9}, thread_id=failed[0].thread.thread_id)
    failed[1].thread.delete()
    done = operator.post(MANY, posted)
    assert "1 run queued." in words(done)
    assert "This thread has a newer run." in words(done)
    assert f"{failed[1].pk} This run no longer exists." in words(done).replace("&#x27;", "'")


def test_bulk_cancel_shows_number_of_withdrawn_requests_and_logs_the_reason(
    operator: Client, asked: Asked
) -> None:
    rows = [asked().run, asked("approval").run]
    page = operator.post(RUNS, select(rows, "cancel"))
    assert "This withdraws 2 pending requests." in words(page)
    done = operator.post(MANY, confirmed(page, reason="a test gone astray"))
    assert "2 runs cancelled." in words(done)
    assert states() == ["cancelled"] * 2
    assert set(Interrupt.objects.values_list("status", flat=True)) == {"cancelled"}
    entries = AuditEntry.objects.filter(verb="cancel")
    assert [entry.detail["reason"] for entry in entries] == ["a test gone astray"] * 2


def test_bulk_cancel_with_too_long_reason_cancels_no_run_and_shows_the_reason_again(
    operator: Client, asked: Asked
) -> None:
    posted = confirmed(operator.post(RUNS, select([asked().run], "cancel")), reason="x" * 2001)
    page = operator.post(MANY, posted)
    assert "errorlist" in text_of(page)
    assert confirmed(page)["reason"] == ["x" * 2001]
    assert states() == ["interrupted"]


def test_bulk_retry_of_all_results_includes_only_runs_matching_the_filters(
    operator: Client, failed: list[Run], asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked()
    monkeypatch.setattr("hitl_django.admin.runs.run_admin.RunAdmin.list_per_page", 2)
    listed = operator.get(f"{RUNS}?state__exact=failed")
    assert "Select all 3 results, on all pages" in words(listed)
    page = operator.post(f"{RUNS}?state__exact=failed", select([], all="1"))
    assert "3 runs to retry" in words(page)
    assert "Skipped" not in words(page)
    assert f'href="{RUNS}?state__exact=failed"' in text_of(page)
    page = operator.post(f"{RUNS}?q=fragile+1", select([], all="1"))
    assert confirmed(page)["item"] == [str(failed[1].pk)]


def test_bulk_retry_of_more_runs_than_the_limit_queues_at_most_the_limit(
    operator: Client, failed: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_run_actions, "MOST", 2)
    # Runs that can't be retried don't count towards the limit.
    for row in failed[:2]:
        services.start("fragile", {"count": 9}, thread_id=row.thread.thread_id)
    assert "1 run to retry" in words(operator.post(RUNS, select([], all="1")))
    Run.objects.exclude(pk__in=[row.pk for row in failed]).delete()
    page = operator.post(RUNS, select([], all="1"))
    assert "2 runs to retry" in words(page)
    assert "At most 2 runs are processed at once." in words(page)
    operator.post(MANY, select(failed))
    assert states().count("queued") == 2


def test_bulk_run_action_page_query_count_is_constant_for_one_and_three_runs(
    operator: Client, failed: list[Run]
) -> None:
    def queries_for(rows: list[Run], verb: str) -> int:
        with CaptureQueriesContext(connection) as told:
            assert operator.post(RUNS, select(rows, verb)).status_code == 200
        return len(told)

    for verb in ("retry", "cancel"):
        queries_for(failed, verb)
        assert queries_for(failed[:1], verb) == queries_for(failed, verb)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("role", ["nobody", "reader", "reviewer", "asker", "public"])
def test_bulk_run_action_without_operate_permission_is_hidden_and_changes_no_run(
    role: str, browse: Browse, failed: list[Run]
) -> None:
    client = browse(role)
    assert 'name="verb"' not in text_of(client.get(RUNS))
    assert 'name="item"' not in text_of(client.get(RUNS))
    page = client.post(RUNS, select(failed))
    assert 'name="item"' not in text_of(page)
    client.post(MANY, select(failed))
    assert states() == ["failed"] * 3


class NotThatOne(ModelPermissionPolicy):
    """Policy that lets no user operate one of the runs."""

    def may_operate(self, user: Any, run: Run) -> bool:
        return super().may_operate(user, run) and run.key != "fragile 1"


@pytest.mark.promise("P18")
def test_bulk_retry_of_run_denied_by_policy_queues_only_permitted_runs(
    operator: Client, failed: list[Run], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.NotThatOne"}
    page = operator.post(RUNS, select(failed))
    assert "2 runs to retry" in words(page)
    assert "You don&#x27;t have permission to do this." in words(page)
    done = operator.post(MANY, select(failed))
    assert "2 runs queued." in words(done)
    assert "You don&#x27;t have permission to do this." in words(done)
    assert states() == ["queued", "failed", "queued"]


def test_bulk_run_action_without_selected_runs_shows_message_and_redirects_to_run_list(
    operator: Client, failed: list[Run]
) -> None:
    for posted in (select([]), {"item": ["nonsense"], "verb": "retry"}):
        assert "No requests selected." in words(operator.post(RUNS, posted, follow=True))
    assert operator.post(MANY, {"verb": "retry"}).headers["Location"] == RUNS
    assert operator.post(MANY, select(failed, "delete")).headers["Location"] == RUNS
    assert operator.get(MANY).headers["Location"] == RUNS
    assert states() == ["failed"] * 3


def test_bulk_retry_on_page_beyond_the_last_rejects_selection_of_all_and_accepts_selected_runs(
    operator: Client, failed: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl_django.admin.runs.run_admin.RunAdmin.list_per_page", 2)
    beyond = f"{RUNS}?state__exact=failed&p=99"
    assert "The list has changed." in words(operator.post(beyond, select([], all="1"), follow=True))
    # The selected runs are known without the page.
    assert "1 run to retry" in words(operator.post(beyond, select(failed[:1])))


@pytest.mark.promise("P3")
def test_error_in_bulk_retry_with_setting_atomic_requests_leaves_earlier_runs_queued(
    operator: Client, failed: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    retry = services.retry

    def broken(pk: Any, **options: Any) -> Any:
        if pk == failed[-1].pk:
            raise RuntimeError("a bug")
        return retry(pk, **options)

    monkeypatch.setattr(operate, "retry", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        operator.post(MANY, select(failed))
    assert states() == ["queued", "queued", "failed"]


def test_bulk_cancel_page_escapes_markup_in_run_key(operator: Client, advance: Advance) -> None:
    run = services.start("fragile", {"count": 1}, key="<b>x</b>")
    page = operator.post(RUNS, {"item": [str(run.id)], "verb": "cancel"})
    assert "&lt;b&gt;x&lt;/b&gt;" in text_of(page)
    assert page_of(run.id, "run") in text_of(page)
