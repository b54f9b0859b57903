"""Views of the API, one class per path: parse, call a service, render."""

from __future__ import annotations
