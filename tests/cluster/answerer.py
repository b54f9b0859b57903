"""A reviewer who approves all interrupts until a number of runs have ended.

    python -m tests.cluster.answerer 50

Prints as JSON the states of the runs and the processes that executed them.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter

import django

django.setup()

from hitl_django import services  # noqa: E402
from hitl_django.models import Interrupt, Run, WorkerHeartbeat  # noqa: E402


def main(runs: int) -> None:
    done = 0
    while done < runs:
        for interrupt in Interrupt.objects.filter(status="pending"):
            services.decide(interrupt.pk, "approve")
        done = Run.objects.exclude(state__in=Run.ACTIVE).count()
        threading.Event().wait(0.1)
    told = {
        "states": Counter(Run.objects.values_list("state", flat=True)),
        "answered": Interrupt.objects.filter(status="decided").count(),
        "workers": list(WorkerHeartbeat.objects.values_list("pid", flat=True)),
    }
    print(json.dumps(told))


main(int(sys.argv[1]))
