"""``from hitl_django import *``, with and without Django's setup."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from hitl_django import *
print(sorted(name for name in list(globals()) if name in ("StateGraph", "interrupt", "start")))
"""


def test_star_import_without_django_settings_has_engine_names() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    assert printed(PROGRAM, environment) == "['StateGraph', 'interrupt']"


def test_star_import_with_django_settings_has_all_names() -> None:
    program = f"import django; django.setup(){PROGRAM}"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    assert printed(program, environment) == "['StateGraph', 'interrupt', 'start']"


def printed(program: str, environment: dict[str, str]) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    ).stdout.strip()
