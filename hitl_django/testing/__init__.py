"""Test environment that runs graphs without a worker or queue.

    def test_refund(hitl):
        run = hitl.start("refund", {"amount": 120})
        hitl.decide("Refund 120.00 EUR to Dana K.", "approve")
        hitl.assert_finished(run, paid=True)

``hitl`` is a GraphEnvironment, as a pytest fixture.
"""

from __future__ import annotations

from .determinism import NondeterminismError, assert_deterministic
from .environment import GraphEnvironment
from .inline import CollectingDispatcher, inline, run_ids

__all__ = [
    "CollectingDispatcher",
    "GraphEnvironment",
    "NondeterminismError",
    "assert_deterministic",
    "inline",
    "run_ids",
]
