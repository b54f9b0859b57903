"""Several runs retried or cancelled at once: each on its own, and each with its result."""

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
    """Three runs that failed."""
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
    form = text_of(page).split('class="hitl-bulk"')[1].split("</form>")[0]
    return {**post_of(form), **more}


def states() -> list[str]:
    return list(Run.objects.order_by("created_at").values_list("state", flat=True))


def test_selected_runs_are_listed_before_the_action(operator: Client, failed: list[Run]) -> None:
    listed = text_of(operator.get(RUNS))
    for row in failed:
        assert f'name="item" value="{row.pk}" aria-label="Select “fragile {row.key}”"' in listed
    page = operator.post(RUNS, select(failed[:2]))
    assert "2 runs to retry" in words(page)
    assert confirmed(page)["item"] == [str(row.pk) for row in reversed(failed[:2])]
    assert states() == ["failed"] * 3


def test_each_run_is_processed_separately_with_its_result(
    operator: Client, failed: list[Run], advance: Advance
) -> None:
    page = operator.post(RUNS, select(failed))
    services.retry(failed[1].pk)  # between the two pages
    done = operator.post(MANY, confirmed(page))
    assert "2 runs queued." in words(done)
    assert "Only failed or parked runs can be retried." in words(done)
    made = AuditEntry.objects.filter(verb="retry", via="admin")
    assert {entry.subject for entry in made} == {str(failed[0].pk), str(failed[2].pk)}
    assert {entry.actor_label for entry in made} == {"operator"}
    advance()
    assert states() == ["succeeded"] * 3


def test_inapplicable_runs_are_excluded_with_reason(
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
    assert "waiting for review" in left_out
    services.cancel(waiting.pk)
    page = operator.post(RUNS, select([waiting], "cancel"))
    assert "None of these runs can be cancelled." in words(page)
    assert "This run has already ended." in words(page)
    assert 'name="item"' not in text_of(page)


def test_superseded_or_deleted_run_says_so(operator: Client, failed: list[Run]) -> None:
    posted = confirmed(operator.post(RUNS, select(failed)))
    services.start("fragile", {"count": 9}, thread_id=failed[0].thread.thread_id)
    failed[1].thread.delete()
    done = operator.post(MANY, posted)
    assert "1 run queued." in words(done)
    assert "This thread has a newer run." in words(done)
    assert f"{failed[1].pk} This run no longer exists." in words(done).replace("&#x27;", "'")


def test_cancel_lists_withdrawn_requests_and_logs_the_reason(
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


def test_too_long_reason_cancels_nothing_and_is_kept(operator: Client, asked: Asked) -> None:
    posted = confirmed(operator.post(RUNS, select([asked().run], "cancel")), reason="x" * 2001)
    page = operator.post(MANY, posted)
    assert "errorlist" in text_of(page)
    assert confirmed(page)["reason"] == ["x" * 2001]
    assert states() == ["interrupted"]


def test_select_all_respects_the_filters(
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


def test_number_of_selected_runs_is_limited(
    operator: Client, failed: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_run_actions, "MOST", 2)
    # What can't be done takes no place of what can.
    for row in failed[:2]:
        services.start("fragile", {"count": 9}, thread_id=row.thread.thread_id)
    assert "1 run to retry" in words(operator.post(RUNS, select([], all="1")))
    Run.objects.exclude(pk__in=[row.pk for row in failed]).delete()
    page = operator.post(RUNS, select([], all="1"))
    assert "2 runs to retry" in words(page)
    assert "At most 2 runs are processed at once." in words(page)
    operator.post(MANY, select(failed))
    assert states().count("queued") == 2


def test_list_queries_do_not_grow_with_runs(operator: Client, failed: list[Run]) -> None:
    def queries_for(rows: list[Run], verb: str) -> int:
        with CaptureQueriesContext(connection) as told:
            assert operator.post(RUNS, select(rows, verb)).status_code == 200
        return len(told)

    for verb in ("retry", "cancel"):
        queries_for(failed, verb)
        assert queries_for(failed[:1], verb) == queries_for(failed, verb)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("role", ["nobody", "reader", "reviewer", "asker", "public"])
def test_without_operate_permission_nothing_is_offered(
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
    """Lets nobody operate one of the runs."""

    def may_operate(self, user: Any, run: Run) -> bool:
        return super().may_operate(user, run) and run.key != "fragile 1"


@pytest.mark.promise("P18")
def test_run_excluded_by_policy_is_excluded(
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


def test_post_without_selection_says_so(operator: Client, failed: list[Run]) -> None:
    for posted in (select([]), {"item": ["nonsense"], "verb": "retry"}):
        assert "No requests selected." in words(operator.post(RUNS, posted, follow=True))
    assert operator.post(MANY, {"verb": "retry"}).headers["Location"] == RUNS
    assert operator.post(MANY, select(failed, "delete")).headers["Location"] == RUNS
    assert operator.get(MANY).headers["Location"] == RUNS
    assert states() == ["failed"] * 3


def test_outdated_page_number_shows_the_form_again(
    operator: Client, failed: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl_django.admin.runs.run_admin.RunAdmin.list_per_page", 2)
    beyond = f"{RUNS}?state__exact=failed&p=99"
    assert "The list has changed." in words(operator.post(beyond, select([], all="1"), follow=True))
    # What was ticked is known without the page.
    assert "1 run to retry" in words(operator.post(beyond, select(failed[:1])))


@pytest.mark.promise("P3")
def test_actions_are_kept_with_atomic_requests(
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


def test_key_with_markup_is_escaped(operator: Client, advance: Advance) -> None:
    run = services.start("fragile", {"count": 1}, key="<b>x</b>")
    page = operator.post(RUNS, {"item": [str(run.id)], "verb": "cancel"})
    assert "&lt;b&gt;x&lt;/b&gt;" in text_of(page)
    assert page_of(run.id, "run") in text_of(page)
