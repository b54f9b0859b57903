"""Undo of decisions over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from hitl_django.models import Interrupt, Run

from .addresses import NOBODYS

pytestmark = pytest.mark.django_db


@pytest.fixture
def undoable(asked: Callable[..., Interrupt], api: Any, settings: Any) -> tuple[Interrupt, Any]:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 60}
    interrupt = asked()
    return interrupt, api.post("decisions", interrupt.pk, body={"type": "approve"}).json()


def test_undone_decision_is_listed_with_undone_at_and_a_new_decision_returns_202(
    undoable: Any, api: Any
) -> None:
    interrupt, made = undoable
    assert made["undone_at"] is None
    assert api.get("run", interrupt.run_id).json()["resumes_at"] is not None
    assert api.get("interrupt", interrupt.pk).json()["settled"] is False
    undone = api.post("undo", interrupt.pk, body={"decision": made["id"]})
    assert undone.status_code == 200
    shown = undone.json()
    assert (shown["status"], shown["version"], shown["decision"]) == ("pending", 3, None)
    assert shown["claimed_by"] != ""
    assert undone["ETag"] == api.get("interrupt", interrupt.pk)["ETag"]
    assert api.get("run", interrupt.run_id).json()["resumes_at"] is None
    (listed,) = api.get("decisions", interrupt.pk).json()["results"]
    assert listed["id"] == made["id"]
    assert (listed["complete"], listed["undone_at"] is None) == (False, False)
    again = api.post(
        "decisions", interrupt.pk, body={"type": "reject"}, HTTP_IF_MATCH=undone["ETag"]
    )
    assert again.status_code == 202


@pytest.mark.parametrize("why", ["too late", "another", "open"])
def test_undo_that_is_late_repeated_or_names_another_decision_returns_409(
    undoable: Any, api: Any, why: str
) -> None:
    interrupt, _made = undoable
    if why == "too late":
        Run.objects.update(resumes_at=Now() - timedelta(seconds=1))
    elif why == "open":
        assert api.post("undo", interrupt.pk).status_code == 200
    body = {"decision": NOBODYS} if why == "another" else {}
    refused = api.post("undo", interrupt.pk, body=body)
    assert (refused.status_code, refused["Content-Type"]) == (409, "application/problem+json")
    assert refused.json()["code"] == "undo_refused"


def test_undo_by_another_user_returns_403(undoable: Any, as_role: Any) -> None:
    interrupt, _made = undoable
    assert as_role("lead").post("undo", interrupt.pk).status_code == 403
    assert Interrupt.objects.get().status == "decided"


def test_undo_without_undo_seconds_returns_409(asked: Callable[..., Interrupt], api: Any) -> None:
    interrupt = asked()
    api.post("decisions", interrupt.pk, body={"type": "approve"})
    assert api.post("undo", interrupt.pk).status_code == 409
