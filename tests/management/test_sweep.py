"""``manage.py hitl sweep``: a single sweep and its output."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django_q.models import OrmQ

from hitl_django.models import Run, Thread


@pytest.mark.django_db
def test_sweep_command_enqueues_run_whose_message_was_lost() -> None:
    thread = Thread.objects.create(thread_id="t", graph="any")
    long_ago = timezone.now() - timedelta(hours=1)
    Run.objects.create(thread=thread, graph="any", queued_at=long_ago, last_message_at=long_ago)
    out = io.StringIO()
    call_command("hitl", "sweep", stdout=out)
    assert out.getvalue() == "Swept.\n"
    assert OrmQ.objects.count() == 1


def test_hitl_command_without_verb_raises_command_error() -> None:
    with pytest.raises(CommandError, match="VERB"):
        call_command("hitl")
