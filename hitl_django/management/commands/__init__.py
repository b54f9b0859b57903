"""Django's package of management commands, with the single command ``hitl``."""

from __future__ import annotations
