"""URL patterns of version 1 of the API."""

from __future__ import annotations

from importlib import import_module

from django.urls import path, register_converter

from hitl_django.extensions import list_extensions

from .url_converters import ThreadIdConverter
from .views import (
    asking,
    bulk,
    events,
    graphs,
    interrupt_stream,
    interrupts,
    queue,
    runs,
    schema,
    threads,
    workers,
)

register_converter(ThreadIdConverter, "hitl_thread")

urlpatterns = [
    path("graphs/", graphs.GraphList.as_view(), name="graphs"),
    path("graphs/<str:name>/", graphs.GraphDetail.as_view(), name="graph"),
    path("graphs/<str:name>/diagram.svg", graphs.GraphDiagram.as_view(), name="graph-diagram"),
    path("runs/", runs.list_view, name="runs"),
    path("runs/batch/", bulk.batch_view, name="runs-batch"),
    path("runs/<uuid:run_id>/", runs.RunDetail.as_view(), name="run"),
    path("runs/<uuid:run_id>/cancel/", runs.RunCancel.as_view(), name="run-cancel"),
    path("runs/<uuid:run_id>/retry/", runs.RunRetry.as_view(), name="run-retry"),
    path("runs/<uuid:run_id>/events/", events.view, name="run-events"),
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
    path(
        "threads/<hitl_thread:thread_id>/audit/",
        threads.ThreadAuditLog.as_view(),
        name="thread-audit",
    ),
    path("threads/<hitl_thread:thread_id>/fork/", threads.ThreadFork.as_view(), name="thread-fork"),
    path("interrupts/", asking.list_view, name="interrupts"),
    path("interrupts/stream/", interrupt_stream.view, name="interrupt-stream"),
    path("interrupts/next/", queue.NextInterrupt.as_view(), name="next"),
    path("interrupts/<uuid:interrupt_id>/", interrupts.detail_view, name="interrupt"),
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
    path("interrupts/<uuid:interrupt_id>/claim/", queue.InterruptClaim.as_view(), name="claim"),
    path(
        "interrupts/<uuid:interrupt_id>/release/", queue.InterruptRelease.as_view(), name="release"
    ),
    path(
        "interrupts/<uuid:interrupt_id>/assign/", queue.InterruptAssignment.as_view(), name="assign"
    ),
    path("interrupts/<uuid:interrupt_id>/snooze/", queue.InterruptSnooze.as_view(), name="snooze"),
    path("interrupts/<uuid:interrupt_id>/undo/", queue.InterruptUndo.as_view(), name="undo"),
    path("interrupts/<uuid:interrupt_id>/comments/", queue.CommentList.as_view(), name="comments"),
    path("stats/", queue.QueueStatsDetail.as_view(), name="stats"),
    path("decisions/bulk/", bulk.view, name="decisions-bulk"),
    path("schema/", schema.SchemaDetail.as_view(), name="schema"),
    path("workers/health/", workers.WorkerHealthDetail.as_view(), name="worker-health"),
]
for _extension in list_extensions():
    if _extension.api_urls:
        urlpatterns += import_module(_extension.api_urls).urlpatterns
