"""Whether a run goes on when one of its questions is answered."""

from __future__ import annotations

from hitl_django.db.alias import write_alias
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt


def resumes_run(interrupt: Interrupt) -> bool:
    """Says whether the answer to this question lets its run go on; the thread is locked.

    Where the graph's policy waits for all, it does if nothing else waits. Whoever answers the
    question before holds the thread's lock, so of several that come at once one is the last.
    """
    if registry.get_review_policy(interrupt.graph).goes_on == "each":
        return True
    waiting = Interrupt.objects.using(write_alias()).filter(
        run=interrupt.run_id, status=Interrupt.Status.PENDING
    )
    return not waiting.exclude(pk=interrupt.pk).exists()
