"""The addresses of version 1."""

from __future__ import annotations

from django.urls import path

from .views import graphs, interrupts, runs, schema, workers

urlpatterns = [
    path("graphs/", graphs.GraphList.as_view(), name="graphs"),
    path("graphs/<str:name>/", graphs.GraphDetail.as_view(), name="graph"),
    path("runs/", runs.RunList.as_view(), name="runs"),
    path("runs/<uuid:run_id>/", runs.RunDetail.as_view(), name="run"),
    path("runs/<uuid:run_id>/cancel/", runs.RunCancel.as_view(), name="run-cancel"),
    path("runs/<uuid:run_id>/retry/", runs.RunRetry.as_view(), name="run-retry"),
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
    path("schema/", schema.SchemaDetail.as_view(), name="schema"),
    path("workers/health/", workers.WorkerHealthDetail.as_view(), name="worker-health"),
]
