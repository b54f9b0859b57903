"""Django app for the machines of the soak test."""

from __future__ import annotations

import os
from pathlib import Path

from django.apps import AppConfig

from tests import clock


class SoakConfig(AppConfig):
    name = "tools.soak"
    label = "soak"

    def ready(self) -> None:
        if path := os.environ.get("SOAK_CLOCK", ""):
            clock.follow(Path(path))
