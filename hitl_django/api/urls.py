"""The addresses of version 1."""

from __future__ import annotations

from django.urls import path, register_converter

from .addresses import ThreadIdConverter
from .views import bulk, graphs, interrupts, runs, schema, threads, workers

register_converter(ThreadIdConverter, "hitl_thread")

urlpatterns = [
    path("graphs/", graphs.GraphList.as_view(), name="graphs"),
    path("graphs/<str:name>/", graphs.GraphDetail.as_view(), name="graph"),
    path("graphs/<str:name>/diagram.svg", graphs.GraphDiagram.as_view(), name="graph-diagram"),
    path("runs/", runs.RunList.as_view(), name="runs"),
    path("runs/<uuid:run_id>/", runs.RunDetail.as_view(), name="run"),
    path("runs/<uuid:run_id>/cancel/", runs.RunCancel.as_view(), name="run-cancel"),
    path("runs/<uuid:run_id>/retry/", runs.RunRetry.as_view(), name="run-retry"),
    path("threads/", threads.ThreadList.as_view(), name="threads"),
    path("threads/<hitl_thread:thread_id>/", threads.ThreadDetail.as_view(), name="thread"),
    path(
        "threads/<hitl_thread:thread_id>/state/",
        threads.ThreadState.as_view(),
        name="thread-state",
    ),
    path(
        "threads/<hitl_thread:thread_id>/history/",
        threads.ThreadHistory.as_view(),
        name="thread-history",
    ),
    path("interrupts/", interrupts.InterruptList.as_view(), name="interrupts"),
    path("interrupts/<uuid:interrupt_id>/", interrupts.InterruptDetail.as_view(), name="interrupt"),
    path(
        "interrupts/<uuid:interrupt_id>/decisions/",
        interrupts.DecisionList.as_view(),
        name="decisions",
    ),
    path(
        "interrupts/<uuid:interrupt_id>/decisions/validate/",
        interrupts.DecisionValidation.as_view(),
        name="decision-validate",
    ),
    path("decisions/bulk/", bulk.BulkDecisions.as_view(), name="decisions-bulk"),
    path("schema/", schema.SchemaDetail.as_view(), name="schema"),
    path("workers/health/", workers.WorkerHealthDetail.as_view(), name="worker-health"),
]
