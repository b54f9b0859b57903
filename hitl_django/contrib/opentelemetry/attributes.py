"""Attributes of spans and metrics: ids, names and outcomes, without contents."""

from __future__ import annotations

RUN = "hitl.run.id"
THREAD = "hitl.thread.id"
GRAPH = "hitl.graph"
NODE = "hitl.node"
STEP = "hitl.step"
NAMESPACE = "hitl.namespace"
TASK = "hitl.task.id"
ATTEMPT = "hitl.attempt"
OUTCOME = "hitl.outcome"
INTERRUPT = "hitl.interrupt.id"
DECISION = "hitl.decision.id"
DECISION_TYPE = "hitl.decision.type"
#: OpenTelemetry's name for the class of an error.
ERROR_TYPE = "error.type"
