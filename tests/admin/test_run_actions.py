"""Operations on runs: retry, cancel and fork, with confirmation pages that list losses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode

from hitl_django import START, StateGraph, run_leases, services
from hitl_django.checkpoints.codec import pack
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, ChannelBlob, Checkpoint, Interrupt, Run, Thread
from tests import graphs

from .conftest import page_of

Browse = Callable[[str], Client]
Advance = Callable[[], int]


def url_of(verb: str, run: Any, *args: str) -> str:
    return reverse(f"admin:hitl_django_run_{verb}", args=[run, *args])


def after(run: Run, step: int) -> str:
    found = Checkpoint.objects.filter(thread=run.thread_id, ns="", step=step)
    return found.order_by("-checkpoint_id")[0].checkpoint_id


def told(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


@pytest.fixture
def failed(advance: Advance) -> Iterator[Run]:
    graphs.FAILING.add("now")
    info = services.start("fragile", {"count": 1})
    advance()
    yield Run.objects.get(pk=info.id)
    graphs.FAILING.clear()


@pytest.fixture
def waiting(asked: Callable[..., Interrupt]) -> Run:
    # The input is long enough to be stored in a separate row.
    return asked(customer="Dana " * 12).run


def test_failed_run_page_has_retry_button_that_queues_the_run_and_writes_an_audit_entry(
    browse: Browse, failed: Run, advance: Advance
) -> None:
    client = browse("operator")
    page = client.get(page_of(failed.pk, "run")).content.decode()
    assert f'action="{url_of("retry", failed.pk)}"' in page
    assert "Retry" in page
    graphs.FAILING.clear()

    response = client.post(url_of("retry", failed.pk), follow=True)
    advance()

    assert "Run queued. It resumes from its last saved step." in response.content.decode()
    failed.refresh_from_db()
    assert failed.state == "succeeded"
    entry = AuditEntry.objects.get(verb="retry")
    assert (entry.actor_label, entry.via) == ("operator", "admin")


def test_parked_run_page_has_retry_button_that_queues_the_run(browse: Browse, failed: Run) -> None:
    Run.objects.update(state="parked")
    client = browse("operator")
    assert "Retry" in client.get(page_of(failed.pk, "run")).content.decode()
    client.post(url_of("retry", failed.pk))
    assert Run.objects.get().state == "queued"


def test_interrupted_run_page_has_no_retry_button_and_retry_post_shows_an_error(
    browse: Browse, waiting: Run
) -> None:
    client = browse("operator")
    page = client.get(page_of(waiting.pk, "run")).content.decode()
    assert url_of("retry", waiting.pk) not in page
    assert "Retry" not in page.partition('<div class="hitl-page"')[2].partition("<template")[0]
    response = client.post(url_of("retry", waiting.pk))
    assert response.status_code == 302
    assert "Only failed or parked runs" in told(response)
    assert Run.objects.get().state == "interrupted"


def test_get_of_retry_cancel_and_fork_pages_changes_no_run(
    browse: Browse, failed: Run, waiting: Run
) -> None:
    client = browse("operator")
    client.get(url_of("retry", failed.pk))
    client.get(url_of("cancel", waiting.pk))
    client.get(url_of("fork", waiting.pk, after(waiting, 0)))
    assert set(Run.objects.values_list("state", flat=True)) == {"failed", "interrupted"}


def test_cancel_page_lists_withdrawn_requests_and_logs_the_reason(
    browse: Browse, waiting: Run
) -> None:
    client = browse("operator")
    page = client.get(url_of("cancel", waiting.pk)).content.decode()
    assert "This withdraws its pending requests" in page
    assert Interrupt.objects.get().title in page

    response = client.post(url_of("cancel", waiting.pk), {"reason": "a duplicate"}, follow=True)

    assert "Run cancelled" in response.content.decode()
    assert Run.objects.get().state == "cancelled"
    assert Interrupt.objects.get().status == "cancelled"
    assert AuditEntry.objects.get(verb="cancel").detail["reason"] == "a duplicate"
    assert "a duplicate" in response.content.decode()
    thread = client.get(reverse("admin:hitl_django_thread_change", args=[waiting.thread_id]))
    assert "a duplicate" in thread.content.decode()


def test_cancel_of_succeeded_run_returns_409_with_the_typed_reason(
    browse: Browse, waiting: Run
) -> None:
    client = browse("operator")
    Run.objects.update(state="succeeded")
    response = client.post(url_of("cancel", waiting.pk), {"reason": "too late"})
    assert response.status_code == 409
    page = response.content.decode()
    assert "The run is already succeeded." in page
    assert "too late" in page


def test_fork_from_a_step_starts_a_new_run_and_supersedes_the_pending_request(
    browse: Browse, waiting: Run, advance: Advance
) -> None:
    client = browse("engineer")
    link = url_of("fork", waiting.pk, after(waiting, 0))
    assert link in client.get(page_of(waiting.pk, "run")).content.decode()
    page = client.get(link).content.decode()
    assert "This cancels the thread's current run" in page
    assert "These pending requests will be withdrawn" in page
    assert Interrupt.objects.get().title in page

    response = client.post(link, {"as_node": "", "values": '{"customer": "Rita"}'}, follow=True)
    advance()

    new = Run.objects.exclude(pk=waiting.pk).get()
    assert response.redirect_chain[-1][0] == page_of(new.pk, "run")
    old = client.get(page_of(waiting.pk, "run")).content.decode()
    assert page_of(new.pk, "run") in old
    assert "Rita" in Interrupt.objects.get(run=new).title
    assert Interrupt.objects.get(run=waiting).status == "superseded"


def test_fork_form_keeps_unsaved_text_of_each_step_separately(browse: Browse, waiting: Run) -> None:
    client = browse("engineer")
    links = [url_of("fork", waiting.pk, after(waiting, step)) for step in (0, -1)]
    drafts = [
        re.findall('data-hitl-draft="(.*?)"', client.get(link).content.decode()) for link in links
    ]
    assert drafts[0] != drafts[1]
    response = client.post(links[0], {"as_node": "", "values": "{}"}, follow=True)
    assert re.findall('data-hitl-recorded="(.*?)"', response.content.decode()) == drafts[0]


def test_fork_form_has_state_fields_and_updates_only_filled_fields(
    browse: Browse, waiting: Run, advance: Advance
) -> None:
    client = browse("engineer")
    link = url_of("fork", waiting.pk, after(waiting, 0))
    page = client.get(link).content.decode()
    for name in ("state/customer", "state/amount", "values"):
        assert f'name="{name}"' in page
    assert waiting.thread.thread_id in page
    client.post(link, {"as_node": "", "values": "", "state/customer": "Rita", "state/amount": ""})
    advance()
    new = Run.objects.exclude(pk=waiting.pk).get()
    item = Interrupt.objects.get(run=new)
    assert "Rita" in item.title
    assert item.payload["amount"] == Interrupt.objects.get(run=waiting).payload["amount"]


def test_fork_with_invalid_state_field_shows_the_error_and_starts_no_run(
    browse: Browse, waiting: Run
) -> None:
    link = url_of("fork", waiting.pk, after(waiting, 0))
    response = browse("engineer").post(link, {"values": "", "state/amount": "a lot"})
    page = response.content.decode()
    assert response.status_code == 200
    assert "Enter a number" in page
    assert 'value="a lot"' in page
    assert Run.objects.get() == waiting


def test_fork_form_of_graph_without_state_schema_has_only_a_json_field(
    browse: Browse, advance: Advance
) -> None:
    graph = StateGraph(dict).add_node("one", lambda state: {"n": 1}).add_edge(START, "one")
    registry.register("loose")(lambda: graph)
    try:
        run = Run.objects.get(pk=services.start("loose", {"n": 0}).id)
        advance()
        page = browse("engineer").get(url_of("fork", run.pk, after(run, 0))).content.decode()
    finally:
        registry.unregister("loose")
    assert 'name="values"' in page
    assert 'name="state/' not in page


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("{not json", "Enter valid JSON"),
        ("NaN", "Enter valid JSON"),
        ("[" * 5000, "Enter valid JSON"),
        ('{"unknown": 1}', "unknown"),
        ('"text"', "as_node"),
    ],
)
def test_fork_with_invalid_values_shows_the_error_and_entered_values(
    browse: Browse, waiting: Run, values: str, said: str
) -> None:
    client = browse("engineer")
    response = client.post(url_of("fork", waiting.pk, after(waiting, 0)), {"values": values})
    page = response.content.decode()
    assert response.status_code == 200
    assert said in page
    assert values[:100].replace('"', "&quot;") in page
    assert Run.objects.get().state == "interrupted"


def test_fork_as_unknown_node_shows_an_error_and_starts_no_run(
    browse: Browse, waiting: Run
) -> None:
    client = browse("engineer")
    at = url_of("fork", waiting.pk, after(waiting, 0))
    response = client.post(at, {"as_node": "nobody", "values": ""})
    assert "nobody is not one of the available choices" in response.content.decode()
    assert Run.objects.count() == 1


def test_fork_of_thread_with_worker_lease_returns_409_and_keeps_form_input(
    browse: Browse, waiting: Run
) -> None:
    Run.objects.update(state="queued")
    assert run_leases.claim(waiting.pk) is not None
    at = url_of("fork", waiting.pk, after(waiting, 0))
    response = browse("engineer").post(at, {"as_node": "", "values": '{"customer": "Rita"}'})
    assert response.status_code == 409
    assert "A worker is running this thread" in response.content.decode()
    assert "Rita" in response.content.decode()
    assert Run.objects.get().state == "running"


def test_fork_from_unknown_step_returns_404(browse: Browse, waiting: Run) -> None:
    for checkpoint in ("nonsense", "00000000-0000-0000-0000-000000000000"):
        assert browse("engineer").get(url_of("fork", waiting.pk, checkpoint)).status_code == 404


@pytest.mark.promise("P18")
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("verb", ["retry", "cancel", "fork"])
@pytest.mark.parametrize("role", ["nobody", "reader", "asker", "reviewer", "blind", "public"])
def test_retry_cancel_and_fork_without_operate_permission_change_no_run(
    browse: Browse, waiting: Run, role: str, verb: str, method: str
) -> None:
    at = [after(waiting, 0)] if verb == "fork" else []
    response = getattr(browse(role), method)(url_of(verb, waiting.pk, *at), {"values": ""})
    if role == "public":
        assert response.headers["Location"].startswith("/admin/login/")
    else:
        # Users who can view the run get 403, and all other users get 404.
        assert response.status_code == (403 if role in ("reader", "reviewer") else 404)
    assert Run.objects.get().state == "interrupted"
    assert not AuditEntry.objects.filter(verb__in=["retry", "cancel", "fork"]).exists()


def test_cancel_and_fork_without_csrf_token_return_403(
    person: Callable[[str], Any], waiting: Run
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("operator"))
    for url in (url_of("cancel", waiting.pk), url_of("fork", waiting.pk, after(waiting, 0))):
        assert client.post(url).status_code == 403
    assert Run.objects.get().state == "interrupted"


def test_run_list_shows_node_and_step_to_readers_but_error_text_only_to_operators(
    browse: Browse, failed: Run, waiting: Run
) -> None:
    runs = reverse("admin:hitl_django_run_changelist")
    assert "RuntimeError: the printer is on fire" in browse("operator").get(runs).content.decode()
    page = browse("reader").get(runs).content.decode()
    assert "RuntimeError" not in page
    assert "failed" in page
    assert "ask · step 0" in page


def test_run_page_without_operate_permission_has_no_action_buttons(
    browse: Browse, failed: Run, waiting: Run
) -> None:
    for run in (failed, waiting):
        page = browse("reader").get(page_of(run.pk, "run")).content.decode()
        assert "hitl-operations" not in page
        assert "/fork/" not in page


def test_run_page_shows_timeline_and_state_only_with_state_permission(
    browse: Browse, waiting: Run
) -> None:
    pages = {
        role: browse(role).get(page_of(waiting.pk, "run")).content.decode()
        for role in ("reader", "operator", "engineer")
    }
    for part in ('id="steps">Timeline</h2>', "Step 0", 'id="state">State</h2>', "Dana"):
        assert part in pages["engineer"]
    for part in ("Timeline", "Step 0", 'id="state"'):
        assert part not in pages["reader"] + pages["operator"]


def test_failed_run_page_names_the_failed_step_and_folds_the_traceback(
    browse: Browse, failed: Run
) -> None:
    page = browse("operator").get(page_of(failed.pk, "run")).content.decode()
    assert '<span class="hitl-pill is-bad">Failed</span>' in page
    assert "Step “work” failed" in page
    assert "Retry from “work”" in page
    assert "RuntimeError: the printer is on fire" in page
    assert "<details><summary" in page.partition('id="error"')[2]
    assert "Continue from an earlier step…" not in page
    page = browse("engineer").get(page_of(failed.pk, "run")).content.decode()
    assert "Continue from an earlier step…" in page


@pytest.mark.parametrize(
    ("state", "seconds"),
    [("queued", "4"), ("running", "4"), ("interrupted", "15"), ("succeeded", ""), ("failed", "")],
)
def test_run_page_requests_updates_until_the_run_has_ended(
    browse: Browse, waiting: Run, state: str, seconds: str
) -> None:
    Run.objects.filter(pk=waiting.pk).update(state=state)
    page = browse("reader").get(page_of(waiting.pk, "run")).content.decode()
    assert (f'data-hitl-live="{seconds}"' in page) is bool(seconds)
    assert ("data-hitl-live" in page) is bool(seconds)
    assert "hitl_django/live.js" in page


def test_run_page_diagram_marks_the_waiting_node(browse: Browse, waiting: Run) -> None:
    page = browse("reader").get(page_of(waiting.pk, "run")).content.decode()
    assert "Waiting for review at: ask." in page
    assert "hitl_django/graph.css" in page


# Threads.


def test_thread_timeline_shows_run_request_decision_and_step_events_with_links(
    browse: Browse, asked: Callable[..., Interrupt], advance: Advance
) -> None:
    item = asked()
    services.decide(item.pk, "approve")
    advance()
    page = browse("engineer").get(page_of(item.thread_id, "thread")).content.decode()
    for said in (
        "Run started",
        "Run ended: succeeded",
        "Review requested",
        "Approved",
        "Step 1",
    ):
        assert said in page
    assert page_of(item.run_id, "run") in page
    assert page_of(item) in page
    assert reverse("admin:hitl_django_checkpoint_changelist") in page


def test_thread_timeline_with_150_steps_is_paginated_without_repeated_steps(
    browse: Browse, asked: Callable[..., Interrupt], django_assert_max_num_queries: Any
) -> None:
    item = asked()
    thread = Thread.objects.get(pk=item.thread_id)
    for step in range(150):
        Checkpoint.objects.create(
            thread=thread, checkpoint_id=f"0-{step}", step=1000 + step, source="loop",
            data=b"", digest="", metadata=b"",
        )  # fmt: skip
    client = browse("reader")
    seen: list[str] = []
    url = page_of(thread.pk, "thread")
    query = ""
    for _ in range(6):
        with django_assert_max_num_queries(25):
            response = client.get(url + query)
        seen += [moment.label for moment in response.context["timeline"].moments]
        before = response.context["timeline"].before
        if not before:
            break
        query = "?" + urlencode({"before": before})
    steps = [label for label in seen if label.startswith("Step 1")]
    assert len(steps) == len(set(steps)) >= 150


@pytest.mark.parametrize("before", ["nonsense", "9999-99-99T00:00:00Z"])
def test_thread_timeline_with_invalid_cursor_shows_the_newest_events(
    browse: Browse, waiting: Run, before: str
) -> None:
    url = page_of(waiting.thread_id, "thread")
    response = browse("reader").get(url, {"before": before, "steps_before": before})
    assert response.status_code == 200
    assert "Run started" in response.content.decode()


def test_thread_timeline_without_run_and_interrupt_permission_omits_their_events(
    browse: Browse, waiting: Run, person: Callable[[str], Any]
) -> None:
    user = person("nobody")
    user.user_permissions.add(Permission.objects.get(codename="view_thread"))
    page = browse("nobody").get(page_of(waiting.thread_id, "thread")).content.decode()
    assert Interrupt.objects.get().title not in page
    assert "Run started" not in page
    assert page_of(waiting.pk, "run") not in page


# The engine's rows.


def test_checkpoint_blob_and_write_lists_are_filtered_by_thread_and_their_row_pages_open(
    browse: Browse, waiting: Run
) -> None:
    client = browse("engineer")
    for model in ("checkpoint", "channelblob", "pendingwrite"):
        url = reverse(f"admin:hitl_django_{model}_changelist")
        listed = client.get(url, {"thread": waiting.thread.thread_id})
        assert listed.context["cl"].result_count > 0
        assert client.get(url, {"thread": "other"}).context["cl"].result_count == 0
        row = listed.context["cl"].result_list[0]
        assert client.get(page_of(row.pk, model)).status_code == 200


@pytest.mark.promise("P22")
def test_channel_blob_page_redacts_secret_keys_and_hides_contents_without_state_permission(
    browse: Browse, advance: Advance, person: Callable[[str], Any]
) -> None:
    services.start("approval", {"text": "the news " * 20})
    advance()
    blob = ChannelBlob.objects.get(channel="text")
    data, digest = pack({"api_key": "hunter2", "rest": "the news"})
    ChannelBlob.objects.filter(pk=blob.pk).update(data=data, digest=digest)
    page = browse("engineer").get(page_of(blob.pk, "channelblob")).content.decode()
    assert "the news" in page
    assert "hunter2" not in page

    user = person("engineer")
    user.user_permissions.remove(user.user_permissions.get(codename="view_thread_state"))
    page = browse("engineer").get(page_of(blob.pk, "channelblob")).content.decode()
    assert "the news" not in page
    assert "have permission to view the contents" in page


@pytest.mark.promise("P22")
def test_checkpoint_page_shows_values_only_with_state_permission(
    browse: Browse, advance: Advance, person: Callable[[str], Any]
) -> None:
    services.start("approval", {"text": "the news"})
    advance()
    row = Checkpoint.objects.order_by("-checkpoint_id")[0]
    assert row.scalars
    assert row.writes
    page = browse("engineer").get(page_of(row.pk, "checkpoint")).content.decode()
    assert page.count("the news") == 2
    assert "__start__" in page

    user = person("engineer")
    user.user_permissions.remove(user.user_permissions.get(codename="view_thread_state"))
    page = browse("engineer").get(page_of(row.pk, "checkpoint")).content.decode()
    assert "the news" not in page


def test_channel_blob_page_with_damaged_or_huge_data_returns_200(
    browse: Browse, waiting: Run
) -> None:
    blob = ChannelBlob.objects.all()[0]
    for data in (b"\xff\xff\xff", b"", b"x" * 600_000):
        ChannelBlob.objects.filter(pk=blob.pk).update(data=data)
        assert browse("engineer").get(page_of(blob.pk, "channelblob")).status_code == 200
