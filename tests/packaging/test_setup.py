"""The modules that ``django.setup()`` imports."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, sys
import django
from django.conf import settings

apps = ["admin", "auth", "contenttypes", "messages", "sessions"]
settings.configure(
    INSTALLED_APPS=[*(f"django.contrib.{app}" for app in apps), "django_q", "hitl_django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    Q_CLUSTER={"orm": "default", "retry": 120, "timeout": 90},
)
django.setup()
print(json.dumps(sorted(sys.modules)))
"""
#: Modules that take long to import, and that many processes never use.
LARGE = {
    "drf_spectacular",
    "hitl_django.admin.base",
    "hitl_django.checkpoints",
    "hitl_django.engine.drivers",
    "hitl_django.engine.serde",
    "hitl_django.forms",
    "hitl_django.services",
    "hitl_django.worker",
    "jsonschema",
    "pydantic",
    "pydantic_core",
    "referencing",
}


def test_django_setup_of_a_project_imports_no_large_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert LARGE.isdisjoint(json.loads(done.stdout))
