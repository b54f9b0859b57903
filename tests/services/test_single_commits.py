"""Services as single transactions: a killed call stores everything or nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from hitl_django import services
from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import restore_thread
from hitl_django.contrib.links.services import create_review_link, revoke_link
from hitl_django.contrib.schedules.services import change_schedule, create_schedule, delete_schedule
from hitl_django.contrib.store import DjangoStore
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.models import Checkpoint, Interrupt, Run
from tests.chaos.commits import Kill
from tests.contrib.archive.conftest import age

pytestmark = pytest.mark.django_db(transaction=True)

ANSWER = {"approved": True, "text": "x"}


class Counted:
    """Call functions, and store the number of commits of each call."""

    def __init__(self) -> None:
        self.commits: dict[str, int] = {}

    def __call__(self, function: Callable[..., Any], *given: Any, **more: Any) -> Any:
        kill = Kill()
        with kill.armed():
            made = function(*given, **more)
        name = function.__qualname__
        self.commits[name] = max(kill.commits, self.commits.get(name, 0))
        return made


def test_each_service_call_makes_exactly_one_commit(
    advance: Callable[[], int], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "SITE_URL": "https://shop.example"}
    call, desk = Counted(), Group.objects.create(name="desk")
    rita, ravi = (User.objects.create_superuser(name) for name in ("rita", "ravi"))

    run = call(services.start, "approval", {"text": "x"}, thread_id="first", by=rita)
    advance()
    interrupt = Interrupt.objects.get()
    call(services.assign, interrupt.pk, to=ravi, by=rita)
    call(services.assign, interrupt.pk, group=desk, by=rita)
    call(services.comment, interrupt.pk, "@ravi?", by=rita)
    later = timezone.now() + timedelta(hours=1)
    call(services.snooze, interrupt.pk, until=later, by=rita)
    call(services.snooze, interrupt.pk, until=None, by=rita)
    call(services.claim, interrupt.pk, by=ravi)
    call(services.release, interrupt.pk, by=ravi)
    link = call(create_review_link, interrupt.pk, name="Lena", by=rita)
    call(revoke_link, link.id, by=rita)
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 60}
    call(services.decide, interrupt.pk, "respond", ANSWER, by=ravi)
    call(services.undo, interrupt.pk, by=ravi)
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 0}
    call(services.resume, "first", ANSWER, by=rita)
    advance()
    call(services.update_state, "first", {"text": "y"}, by=rita)
    call(services.fork, "first", Checkpoint.objects.order_by("pk")[0].checkpoint_id, by=rita)
    advance()
    asking = Interrupt.objects.get(status="pending")
    call(services.claim_next, by=ravi)
    call(services.cancel, asking.run_id, by=rita)
    copy = call(services.copy_thread, "first", by=rita)
    call(services.create_thread, "empty", by=rita)
    call(services.change_metadata, "empty", {"a": 1}, by=rita)
    call(DjangoSaver().copy_thread, "first", "other")
    call(DjangoSaver().prune, ["first"])
    call(DjangoSaver().delete_thread, "other")
    call(services.erase_thread, copy.thread_id, by=rita)
    Run.objects.filter(pk=run.id).update(state="failed")
    for each in Run.objects.all():
        age(each.pk, 90)
    assert archive_ended(30, 10)
    call(restore_thread, "first", by=rita)
    call(services.erase_thread, "first", by=rita)

    schedule = call(create_schedule, "approval", "0 7 * * *", {"text": "x"}, by=rita)
    call(change_schedule, schedule.id, is_active=False, by=rita)
    call(delete_schedule, schedule.id, by=rita)
    webhook = call(webhook_services.create_webhook, "https://hooks.example/", by=rita)
    call(webhook_services.change_webhook, webhook.id, description="ours", by=rita)
    call(webhook_services.rotate_secret, webhook.id, by=rita)
    delivery = call(webhook_services.send_test_event, webhook.id, by=rita)
    call(webhook_services.redeliver, delivery.id, by=rita)
    call(webhook_services.delete_webhook, webhook.id, by=rita)
    saved = call(services.save_filter, "Mine", {"q": "x"}, by=rita)
    call(services.remove_filter, saved, by=rita)
    call(services.run_idempotent, lambda: 7, str, key="key-1", request={"a": 1}, by=rita)
    store = DjangoStore()
    call(store.put, ("a",), "1", {"n": 1})
    call(store.delete, ("a",), "1")

    assert {name: count for name, count in call.commits.items() if count != 1} == {}
