"""Where the code is that the reference is made from: every dotted path, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import resolve_name, walk_packages
from typing import Any

from hitl_django import errors as _errors
from hitl_django import langgraph

#: Lists the settings, with those of optional apps, as fields of dataclasses.
SETTINGS = "hitl_django.conf.list_settings"
#: The modules that define errors.
ERRORS = (
    "hitl_django.engine.errors",
    "hitl_django.errors",
    "hitl_django.contrib.links.errors",
    "hitl_django.contrib.schedules.errors",
    "hitl_django.contrib.webhooks.errors",
)
#: How the API answers an error, by its class.
HTTP_ERRORS = "hitl_django.api.problems.PROBLEM_TYPES"
FIND_HTTP_ERROR = "hitl_django.api.problems.find_type_of_class"
#: Makes the OpenAPI document.
OPENAPI = "hitl_django.api.openapi.Generator"
#: The modules of the verbs of ``manage.py hitl``.
VERBS = "hitl_django.management.commands.hitl.list_verbs"
#: Whose states and transitions are drawn.
RUN = "hitl_django.models.Run"
INTERRUPT = "hitl_django.models.Interrupt"
DECISION = "hitl_django.models.Decision"
THREAD = "hitl_django.models.Thread"
#: The models whose rows others may read.
MODELS = (
    "hitl_django.models.Thread",
    "hitl_django.models.Run",
    "hitl_django.models.Interrupt",
    "hitl_django.models.Decision",
    "hitl_django.models.Comment",
    "hitl_django.models.RunEvent",
    "hitl_django.models.AuditEntry",
    "hitl_django.contrib.store.models.StoreItem",
    "hitl_django.contrib.schedules.models.Schedule",
)
#: What asks for permissions.
POLICY = "hitl_django.permissions.ModelPermissionPolicy"
#: The seam to a queue.
DISPATCHER = "hitl_django.task_queue.dispatcher.Dispatcher"
#: Those that the package brings, by the names that ``HITL["DISPATCH"]`` has for them.
DISPATCHERS = (
    "hitl_django.contrib.django_q2.Dispatcher",
    "hitl_django.contrib.django_tasks.Dispatcher",
    "hitl_django.contrib.celery.Dispatcher",
    "hitl_django.contrib.procrastinate.Dispatcher",
)
SIGNALS = "hitl_django.signals"
SERVICES = "hitl_django.services"
TESTING = "hitl_django.testing"
#: The services of webhooks, the labels of all events, and the events of webhooks among them.
WEBHOOK_SERVICES = "hitl_django.contrib.webhooks.services"
EVENT_LABELS = "hitl_django.contrib.webhooks.event_labels.list_labels"
WEBHOOK_EVENTS = "hitl_django.contrib.webhooks.messages.list_events"
WEBHOOK_TEST = "hitl_django.contrib.webhooks.event_labels.TEST"
#: What lays a graph out, and what draws that as SVG.
LAYOUT = "hitl_django.graph_registry.svg.get_picture"
SVG = "hitl_django.graph_registry.svg.draw_svg"


def load(path: str) -> Any:
    """Return the module, or what is in one, at a dotted path."""
    return resolve_name(path)


def ported() -> Mapping[str, Sequence[str]]:
    """Return the modules that have LangGraph's names, each with those names."""
    found = walk_packages(langgraph.__path__, f"{langgraph.__name__}.")
    return {each.name: getattr(import_module(each.name), "__all__", ()) for each in found}


def errors() -> Sequence[str]:
    """Return the names of the module of errors."""
    return _errors.__all__
