"""The statements of every decision.

Where zero rows mean something, the caller says what.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from hitl_django.models import Interrupt, Run
from hitl_django.saver.compiled import Given, Select, Update

_INTERRUPT = Given("interrupt", models.UUIDField())

#: Finds the thread that a question belongs to.
THREAD_OF = Select(lambda: Interrupt.objects.order_by().filter(pk=_INTERRUPT).values_list("thread"))

#: Closes a question that is open, and still the one that was looked at.
CLOSE = Update(
    Interrupt,
    Q(
        pk=_INTERRUPT,
        status=Interrupt.Status.PENDING,
        version=Given("version", models.PositiveIntegerField()),
    ),
    lambda: {
        "status": Interrupt.Status.DECIDED,
        "closed_at": Now(),
        "version": F("version") + 1,
    },
)

#: Queues a run that waits for an answer.
RESUME = Update(
    Run,
    Q(pk=Given("run", models.UUIDField()), state=Run.State.INTERRUPTED),
    lambda: {"state": Run.State.QUEUED, "queued_at": Now(), "hinted_at": Now()},
)
