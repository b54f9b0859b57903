"""Which run of a thread is the newest."""

from __future__ import annotations

from uuid import UUID

from hitl_django.db.alias import write_alias
from hitl_django.models import Run


def later_run(run: Run) -> UUID | None:
    """Returns the id of the thread's newest run; None where that is the given one.

    In the database's own order. On SQLite a moment that was read is another text than the one
    stored, so comparing with it would find the same run later than itself, once in a thousand.
    """
    runs = Run.objects.using(write_alias()).filter(thread=run.thread_id)
    newest = runs.order_by("-created_at", "-pk").values_list("pk", flat=True).first()
    return None if newest == run.pk else newest
