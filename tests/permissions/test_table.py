"""Completeness of the permission matrix."""

from __future__ import annotations

from .addresses import addresses
from .table import ADMIN, AGENT, API, FRAME, NOT_THERE, NOTHING, PUBLIC


def test_every_url_has_a_row_in_the_permission_matrix() -> None:
    rows = {name for name, _ in {**API, **AGENT}} | {*ADMIN, *FRAME, *PUBLIC, NOTHING, *NOT_THERE}
    assert rows == set(addresses())


def test_every_api_method_has_a_row_in_the_permission_matrix() -> None:
    handled = {
        (name, method.upper())
        for name, view in addresses().items()
        if name.startswith(("hitl_django:", "langgraph_api:")) and name not in {*PUBLIC, *NOT_THERE}
        for method in ("get", "post", "put", "patch", "delete")
        if hasattr(view.cls, method)
    }
    # The list of runs without a thread accepts only new runs.
    handled -= {("langgraph_api:runs", "GET"), ("langgraph_api:thread-state-of", "POST")}
    assert handled == {*API, *AGENT}
