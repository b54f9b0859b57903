"""A database router with a lagging replica, from which no decision is derived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.db.models.functions import Now
from django.test import override_settings

from hitl_django import audit, services
from hitl_django.contrib.insights.exports import export_decisions
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.insights.reports import review_report
from hitl_django.contrib.insights.spot_checks import record_spot_check
from hitl_django.models import AuditEntry, Comment, Decision, Interrupt, Run, Thread
from hitl_django.services import Period
from hitl_django.worker import retention
from hitl_django.worker.sweeper import sweep
from tests import graphs

Advance = Callable[[], int]
#: No database has this name, so every read from it fails.
AWAY = "replica"


class Router:
    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return AWAY if model._meta.app_label.startswith("hitl_") else None

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        return "default" if model._meta.app_label.startswith("hitl_") else None


@pytest.fixture
def replica(advance: Advance) -> Iterator[None]:
    with override_settings(DATABASE_ROUTERS=[Router()]):
        yield


def written(model: Any) -> Any:
    return model.objects.using("default")


def asked(graph: str = "approval", **given: Any) -> services.RunInfo:
    return services.start(graph, {"text": "x"}, **given)


@pytest.fixture
def operator(user: Callable[..., User]) -> User:
    return user(
        "olga",
        *("view_run", "operate_run", "start_run", "view_thread"),
        *("view_interrupt", "decide_interrupt"),
    )


def test_start_advance_decide_and_run_result_use_the_primary_database(
    replica: None, advance: Advance, operator: User
) -> None:
    run = asked(by=operator, key="once")
    assert asked(by=operator, key="once").id == run.id
    advance()
    interrupt = written(Interrupt).get()
    services.decide(interrupt.pk, "respond", {"approved": True, "text": "x"}, by=operator)
    advance()
    assert written(Run).get().state == "succeeded"
    services.run_result(run.id)


def test_start_with_on_pending_discard_uses_the_primary_database(
    replica: None, advance: Advance, operator: User
) -> None:
    run = asked()
    advance()
    asked(thread_id=run.thread_id, by=operator, on_pending="discard")
    advance()
    waiting = written(Interrupt).order_by("created_at").values_list("status", flat=True)
    assert sorted(waiting) == ["pending", "superseded"]
    discarded = written(AuditEntry).get(verb="discard")
    assert len(discarded.detail["interrupts"]) == 1


def test_cancel_and_erase_thread_use_the_primary_database(
    replica: None, advance: Advance, operator: User
) -> None:
    run = asked()
    advance()
    services.cancel(run.id, by=operator, reason="secret")
    services.erase_thread(run.thread_id, by=operator)
    assert "secret" not in str(written(AuditEntry).values())
    assert list(audit.find_faults()) == []


def test_retry_of_failed_run_uses_the_primary_database(
    replica: None, advance: Advance, operator: User
) -> None:
    graphs.FAILING.add("yes")
    run = services.start("fragile", {"count": 1})
    advance()
    graphs.FAILING.clear()
    assert services.retry(run.id, by=operator).state == "queued"
    advance()
    assert written(Run).get().state == "succeeded"


def test_sweep_and_retention_use_the_primary_database(
    replica: None, advance: Advance, settings: Any
) -> None:
    run = asked()
    advance()
    written(Interrupt).update(expires_at=Now(), expiry={"seconds": 1, "then": "cancel"})
    sweep()
    assert written(Run).get().state == "cancelled"
    asked(thread_id=run.thread_id)
    written(Run).update(last_message_at=Now() - timedelta(hours=1))
    assert len(sweep()) == 1
    services.cancel(written(Run).get(state="queued").pk)
    written(Thread).update(ended_at=Now() - timedelta(days=9))
    assert list(retention.prune_ended(1)) == [1]
    settings.HITL = {**settings.HITL, "RETENTION_DAYS": 1}
    sweep()
    assert not written(Thread).exists()


def test_spot_checks_saved_filters_and_reports_use_the_primary_database(
    replica: None, advance: Advance, operator: User, user: Callable[..., User]
) -> None:
    ravi = user("ravi", "view_interrupt", "decide_interrupt", "add_comment", "assign_interrupt")
    asked()
    advance()
    interrupt = written(Interrupt).get()
    services.assign(interrupt.pk, to=ravi, by=ravi)
    services.comment(interrupt.pk, "Is it @olga?", by=ravi)
    assert written(Comment).get().mentions == ["olga"]
    services.decide(interrupt.pk, "respond", {"approved": True, "text": "x"}, by=operator)
    made = written(Decision).get()
    look = written(SpotCheck).create(interrupt_id=interrupt.pk, decision_id=made.pk)
    assert record_spot_check(look.pk, True, by=ravi).result == "agree"
    kept = services.save_filter("Mine", {"show": "mine"}, by=ravi)
    assert [one.id for one in services.list_saved_filters(ravi)] == [kept]
    assert services.remove_filter(kept, by=ravi)
    today = Period.build(date.today() - timedelta(1), date.today() + timedelta(1))
    assert review_report(None, today).decided == 1
    assert len(list(export_decisions(None, today))) == 1
    assert len(list(services.export_audit_log(None, today))) > 1
