"""The invented past of the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from project.graphs import agent, desk, newsletter, payment, refund
from project.sample_cases import Case, list_cases

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
MODELS = {
    "agent": agent.AgentRequest,
    "desk": desk.DeskRequest,
    "newsletter": newsletter.NewsletterRequest,
    "payment": payment.Invoice,
    "refund": refund.RefundRequest,
    "travel": agent.AgentRequest,
}
#: Prints facts about the sample data of a new database.
REPORT = """
import django; django.setup()
from datetime import timedelta
from django.utils import timezone
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.models import *
from project import customers, history, people
people.create(); customers.create()
print("created", history.create(), history.create())
now = timezone.now()
pending = ReviewItem.pending.all()
snoozed = pending.filter(snoozed_until__gt=now)
print("open", len(pending) - len(snoozed), "snoozed", len(snoozed))
print("first", pending[0].title, pending[0].approvals, "of", pending[0].quorum)
print("overdue", pending.filter(overdue=True).exclude(pk__in=snoozed).count())
print("claimed", pending.filter(claimed_until__gt=now + timedelta(hours=2)).count())
print("states", *sorted(set(Run.objects.values_list("state", flat=True))))
print("failed", Run.objects.filter(state="failed").count())
print("mention", Comment.objects.filter(mentions__contains="lena").exists())
print("subjects", Thread.objects.filter(subject_type__isnull=False).exists())
print("schedules", Schedule.objects.filter(is_active=True).count())
ages = [(now - each.created_at).days for each in Decision.objects.all()]
print("days", min(ages), max(ages), len(ages) > 40)
print("future", AuditEntry.objects.filter(at__gt=now).exists())
"""


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list_cases(NOW)


def test_demo_case_inputs_are_valid_for_their_graphs(cases: list[Case]) -> None:
    for case in cases:
        MODELS[case.graph].model_validate(case.input)


def test_demo_cases_have_distinct_keys_and_use_every_graph(cases: list[Case]) -> None:
    assert len({case.key for case in cases}) == len(cases)
    kinds = Counter(case.graph for case in cases)
    assert kinds.keys() == MODELS.keys()
    assert min(kinds.values()) >= 3


def test_demo_case_timestamps_are_not_in_the_future(cases: list[Case]) -> None:
    assert [
        (case.key, step.do) for case in cases for step in case.steps if step.after >= case.ago
    ] == []


@pytest.mark.cluster
def test_demo_history_fills_a_new_database_once_and_keeps_the_audit_log_intact(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "HITL_DEMO_DIR": str(tmp_path), "HITL_DEMO_DATABASE": ""}
    environment["DJANGO_SETTINGS_MODULE"] = "project.settings"

    def run(*command: str) -> str:
        return subprocess.run(
            [sys.executable, *command],
            cwd=ROOT, env=environment, timeout=240, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    run("manage.py", "migrate", "--verbosity", "0")
    assert run("-c", REPORT).splitlines() == [
        "created 71 0",
        "open 22 snoozed 3",
        "first Pay invoice 2026-0871 to Kletterwerk GmbH, 8,420.00 EUR 1 of 2",
        "overdue 2",
        "claimed 3",
        "states failed interrupted parked succeeded",
        "failed 2",
        "mention True",
        "subjects True",
        "schedules 2",
        "days 0 29 True",
        "future False",
    ]
    assert "The audit log is intact." in run("manage.py", "hitl", "verify-audit")
