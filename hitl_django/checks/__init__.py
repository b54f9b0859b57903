"""System checks of the app's settings and of the project that uses the app."""

from __future__ import annotations

from . import configuration, project

__all__ = ["configuration", "project"]
