"""The invented past of the demo: a month of requests, decisions and comments.

All rows are created by the public services, as in production. Only the times are invented: before
each event, all stored times are moved back by the time since the previous event. The times of the
audit log are moved as well, and the hashes of the log are computed again at the end. Never do this
in a real project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any, cast

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import DateTimeField, F, Model
from django.utils import timezone

from hitl_django import audit, services
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.insights.spot_checks import record_spot_check
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.decision_types import DecisionName
from hitl_django.models import (
    AuditEntry,
    Checkpoint,
    Comment,
    Decision,
    Interrupt,
    Run,
    RunEvent,
    Thread,
)
from hitl_django.testing import inline

from .models import Customer
from .sample_cases import Case, Step, list_cases

#: Schedules: graph, cron expression, description and input.
SCHEDULES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "newsletter",
        "0 8 * * 1",
        "Monday notes to the shop team",
        {
            "subject": "Monday notes",
            "audience": "the shop team",
            "draft": "Deliveries: two pallets on Tuesday.\n\nPlease photograph broken poles.",
            "limit": 1000,
        },
    ),
    (
        "agent",
        "30 2 * * *",
        "Nightly clean-up of build machines",
        {
            "request": "Free disk space on build-02.",
            "calls": [
                {
                    "tool": "delete_files",
                    "args": {"path": "/var/cache/builds", "files": 212, "size": "6.1 GB"},
                }
            ],
        },
    ),
)


#: Models with times that the cases create. They are listed because
#: ``hitl_django.testing.clock.move_back``, which moves all models, takes three times as long.
MOVED: dict[type[Model], list[str]] = {
    model: [each.name for each in model._meta.concrete_fields if isinstance(each, DateTimeField)]
    for model in (
        AuditEntry,
        Checkpoint,
        Comment,
        Decision,
        Interrupt,
        Run,
        RunEvent,
        SpotCheck,
        Thread,
    )
}


def create(now: datetime | None = None) -> int:
    """Create the sample runs and return their number; 0 if the database already has runs.

    If an error occurs or the user stops the demo, the runs are deleted.
    """
    if Run._base_manager.exists():
        return 0
    cases = list_cases(now or timezone.now())
    try:
        with inline() as advance:
            Player(advance).play(cases)
            services.mark_overdue()
        hash_audit_log_again()
        # No messages are sent about the past.
        Delivery._base_manager.all().delete()
    except BaseException:
        Thread._base_manager.all().delete()
        raise
    create_schedules()
    return len(cases)


@dataclass(slots=True)
class Player:
    """Performs the events of cases in the order of their times."""

    advance: Callable[[], int]
    runs: dict[str, Any] = field(default_factory=dict)
    users: dict[str, Any] = field(default_factory=dict)

    def play(self, cases: list[Case]) -> None:
        self.users = {user.get_username(): user for user in get_user_model()._base_manager.all()}
        events: list[tuple[timedelta, Case, Step | None]] = []
        for case in cases:
            events.append((case.ago, case, None))
            events += [(case.ago - step.after, case, step) for step in case.steps]
        events.sort(key=lambda event: event[0], reverse=True)
        before = events[0][0]
        for ago, case, step in events:
            pass_time(before - ago)
            before = ago
            if step is None:
                self.start(case)
            else:
                self.perform(case, step)
            self.advance()
        pass_time(before)

    def start(self, case: Case) -> None:
        subject = case.customer and Customer._default_manager.get(pk=case.customer)
        self.runs[case.key] = services.start(
            case.graph,
            case.input,
            key=case.key,
            by=self.users.get(case.by),
            subject=subject or None,
        ).id

    def perform(self, case: Case, step: Step) -> None:
        """Perform a step on the first pending request of the case, or on its last request."""
        rows = Interrupt._base_manager.filter(run=self.runs[case.key]).order_by("created_at", "id")
        if step.title:
            rows = rows.filter(title__startswith=step.title)
        pending = rows.filter(status=Interrupt.Status.PENDING).first()
        by = self.users[step.by] if step.by else None
        if step.do == "expire":
            services.expire_due()
            return
        request = pending or rows.last()
        assert request is not None, f"{case.key} has no request."
        if step.do in ("approve", "reject", "edit", "respond"):
            value = {} if step.value is None else {"value": step.value}
            decision = cast(DecisionName, step.do)
            services.decide(request.pk, decision, by=by, via="admin", reason=step.text, **value)
        elif step.do == "comment":
            services.comment(request.pk, step.text, by=by, via="admin")
        elif step.do == "claim":
            services.claim(request.pk, by=by, via="admin", seconds=step.hours * 3600)
        elif step.do == "assign":
            services.assign(request.pk, to=self.users[step.text], by=by, via="admin")
        elif step.do == "assign_group":
            group = Group.objects.get(name=step.text)
            services.assign(request.pk, group=group, by=by, via="admin")
        elif step.do == "snooze":
            until = timezone.now() + timedelta(hours=step.hours)
            services.snooze(request.pk, until=until, by=by, via="admin")
        elif step.do == "spot_check":
            check = SpotCheck._base_manager.filter(interrupt=request.pk, result="").first()
            if check is not None:
                record_spot_check(check.pk, not step.text, reason=step.text, by=by, via="admin")
        else:
            raise ValueError(f"{step.do!r} is not a step.")


def pass_time(passed: timedelta) -> None:
    """Move all times of the created rows to the past."""
    if passed:
        for model, names in MOVED.items():
            model._base_manager.update(**{name: F(name) - passed for name in names})


def hash_audit_log_again() -> None:
    """Compute the hash chains of the audit log again, with the invented times."""
    for thread in Thread._base_manager.order_by("pk"):
        last = ""
        for entry in AuditEntry._base_manager.filter(thread=thread).order_by("seq"):
            entry.prev_hash = last
            last = entry.hash = audit.hash_entry(entry, thread.thread_id)
            entry.save(update_fields=["prev_hash", "hash"])
        Thread._base_manager.filter(pk=thread.pk).update(audit_hash=last)


def create_schedules() -> None:
    """Create schedules, if the package that reads cron expressions is installed."""
    if find_spec("cronsim") is None:
        return
    from hitl_django.contrib.schedules.services import create_schedule

    owner = get_user_model()._base_manager.get(username="olga")
    for graph, expression, description, given in SCHEDULES:
        create_schedule(graph, expression, given, description=description, by=owner)
