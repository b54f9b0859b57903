"""A project without hitl_django.contrib.webhooks: no table, no route, no import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parents[2]

#: Runs a graph to its end in a database of its own, and prints what there is of webhooks.
PROGRAM = """
import json, sys
from django.conf import settings
from tests import settings as usual

LEFT_OUT = ("hitl_django.contrib.webhooks", "hitl_django.contrib.alerts")
values = {name: getattr(usual, name) for name in dir(usual) if name.isupper()}
values["INSTALLED_APPS"] = [name for name in usual.INSTALLED_APPS if name not in LEFT_OUT]
values["DATABASES"] = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
settings.configure(**values)

import django
django.setup()
from django.core.management import call_command
from django.db import connection
from django.urls import NoReverseMatch, reverse
from hitl_django import services, testing
from hitl_django.models import Interrupt, Run

call_command("migrate", verbosity=0)
call_command("check")
with testing.inline() as advance:
    run = services.start("approval", {"text": "x"})
    advance()
    services.decide(Interrupt.objects.get(run=run.id).pk, "approve")
    advance()
from hitl_django.worker import sweep
sweep()
try:
    route = reverse("hitl_django:webhooks")
except NoReverseMatch:
    route = ""
print(json.dumps({
    "state": Run.objects.get().state,
    "tables": [name for name in connection.introspection.table_names() if "hitl" in name
               and ("webhook" in name or "deliver" in name)],
    "modules": [name for name in sys.modules if name.startswith(LEFT_OUT)],
    "route": route,
}))
"""


@pytest.mark.any_database
@pytest.mark.process
def test_project_without_webhooks_runs_without_any_trace_of_them() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"state": "succeeded", "tables": [], "modules": [], "route": ""}


@pytest.mark.any_database
def test_webhook_models_without_the_app_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = find_spec("hitl_django.contrib.webhooks.models")
    assert spec is not None
    assert spec.loader is not None
    before = set(apps.get_app_config("hitl_django").models)
    monkeypatch.setattr(apps, "is_installed", lambda name: False)
    with pytest.raises(ImproperlyConfigured, match=r"hitl_django\.contrib\.webhooks"):
        spec.loader.exec_module(module_from_spec(spec))
    assert set(apps.get_app_config("hitl_django").models) == before
