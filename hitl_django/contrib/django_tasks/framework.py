"""Imports of Django Tasks, from Django or from the package django-tasks."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hitl_django.engine.extras import require_extra

_home = "django.tasks" if find_spec("django.tasks") else "django_tasks"
with require_extra("tasks"):
    _tasks: Any = import_module(_home)

task, task_backends = _tasks.task, _tasks.task_backends
_signals: Any = import_module(f"{_home}.signals")
task_started, task_finished = _signals.task_started, _signals.task_finished
InvalidTaskBackend: type[Exception] = (
    getattr(import_module(f"{_home}.exceptions"), "InvalidTaskBackend", None)
    or import_module(f"{_home}.exceptions").InvalidTaskBackendError
)
