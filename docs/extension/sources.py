"""Dotted paths of all code used by the generated reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name, walk_packages
from typing import Any

from hitl_django import contrib, langgraph
from hitl_django import errors as _errors

#: Function that lists the settings, including those of optional apps.
SETTINGS = "hitl_django.conf.list_settings"
#: Modules that define errors.
ERRORS = (
    "hitl_django.engine.errors",
    "hitl_django.errors",
    "hitl_django.contrib.links.errors",
    "hitl_django.contrib.schedules.errors",
    "hitl_django.contrib.webhooks.errors",
)
#: Problem types of the API by error class.
HTTP_ERRORS = "hitl_django.api.problems.PROBLEM_TYPES"
FIND_HTTP_ERROR = "hitl_django.api.problems.find_type_of_class"
#: Generator of the OpenAPI document.
OPENAPI = "hitl_django.api.openapi.Generator"
#: Function that returns the modules of the verbs of ``manage.py hitl``.
VERBS = "hitl_django.management.commands.hitl.list_verbs"
#: Models with states and transitions.
RUN = "hitl_django.models.Run"
INTERRUPT = "hitl_django.models.Interrupt"
DECISION = "hitl_django.models.Decision"
THREAD = "hitl_django.models.Thread"
#: Public models.
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
    "hitl_django.contrib.langgraph_api.models.Assistant",
)
#: Policy that checks permissions.
POLICY = "hitl_django.permissions.ModelPermissionPolicy"
#: Interface of a task queue.
DISPATCHER = "hitl_django.task_queue.dispatcher.Dispatcher"
#: Dispatchers of this package, as named in ``HITL["DISPATCH"]``.
DISPATCHERS = tuple(
    f"hitl_django.contrib.{path.parent.name}.Dispatcher"
    for path in sorted(Path(contrib.__path__[0]).glob("*/dispatcher.py"))
)
#: Names for optional apps of other packages. A class is followed by its public members, if it has
#: others.
EXTENSIONS: Mapping[str, Sequence[str]] = {
    "hitl_django.extensions.register": (),
    "hitl_django.extensions.Extension": (),
    "hitl_django.extensions.Table": (),
    "hitl_django.extensions.Guests": (),
    "hitl_django.extensions.Archive": ("column", "read", "write", "restore"),
    "hitl_django.extensions.AdminLink": (),
    "hitl_django.extensions.OverviewTable": (),
    "hitl_django.extensions.OverviewRow": (),
    "hitl_django.extensions.Finding": (),
    "hitl_django.extensions.Event": (),
    "hitl_django.events.EventName": (),
    "hitl_django.events.publish": (),
    "hitl_django.admin.add_pages": (),
    "hitl_django.admin.panels.Panel": ("get_context", "get_initial", "perform"),
    "hitl_django.permissions.get_policy": (),
    "hitl_django.permissions.select_visible": (),
    "hitl_django.audit.label_user": (),
    "hitl_django.db.write_batch.WriteBatch": ("insert", "after_write"),
    "hitl_django.db.bulk_insert.BulkInsert": (),
    "hitl_django.task_queue.dispatcher.enqueue_task": (),
    "hitl_django.conf.hitl": (),
    "hitl_django.conf.kinds.setting": (),
    "hitl_django.conf.kinds.count": (),
    "hitl_django.conf.kinds.days_by_graph": (),
    "hitl_django.conf.kinds.dotted_path": (),
    "hitl_django.conf.kinds.flag": (),
    "hitl_django.conf.kinds.one_of": (),
    "hitl_django.conf.kinds.positive": (),
    "hitl_django.conf.kinds.positive_or_none": (),
    "hitl_django.conf.kinds.rate": (),
    "hitl_django.conf.kinds.share": (),
    "hitl_django.conf.kinds.slots": (),
    "hitl_django.conf.kinds.url": (),
}
SIGNALS = "hitl_django.signals"
SERVICES = "hitl_django.services"
TESTING = "hitl_django.testing"
#: Services of webhooks, labels of all events, and the webhook events.
WEBHOOK_SERVICES = "hitl_django.contrib.webhooks.services"
EVENT_LABELS = "hitl_django.contrib.webhooks.event_labels.list_labels"
WEBHOOK_EVENTS = "hitl_django.contrib.webhooks.messages.list_events"
WEBHOOK_TEST = "hitl_django.contrib.webhooks.event_labels.TEST"
#: Layout of a graph, and its rendering as SVG.
LAYOUT = "hitl_django.graph_registry.svg.get_picture"
SVG = "hitl_django.graph_registry.svg.draw_svg"


def load(path: str) -> Any:
    """Return the module or object at a dotted path."""
    return resolve_name(path)


def ported() -> Mapping[str, Sequence[str]]:
    """Return the modules with LangGraph's names, and these names."""
    found = walk_packages(langgraph.__path__, f"{langgraph.__name__}.")
    return {each.name: getattr(import_module(each.name), "__all__", ()) for each in found}


def errors() -> Sequence[str]:
    """Return the public names of the errors module."""
    return _errors.__all__
