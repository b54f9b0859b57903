"""Management commands: ``manage.py hitl VERB``, one module per verb."""

from __future__ import annotations
