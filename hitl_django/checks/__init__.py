"""System checks: the settings of this app, and what the project around it should bring."""

from __future__ import annotations

from . import configuration, project

__all__ = ["configuration", "project"]
