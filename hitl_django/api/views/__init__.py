"""Views of the API, one class for each path: they parse, call a service and render, no more."""

from __future__ import annotations
