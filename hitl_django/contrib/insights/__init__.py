"""Insights: reports on reviews, CSV downloads and spot checks of decisions.

sampling.py     ``spot_check()``: the rates of spot checks, by graph
spot_checks.py  sampling of approvals, and results of spot checks
reports.py      interrupts and decisions of a period, by day, graph and reviewer
exports.py      the decisions of a period, row by row
admin/          the pages: reports with plots and downloads, spot checks
"""

from __future__ import annotations

from .sampling import spot_check

__all__ = ["spot_check"]
