"""The super-step loop without I/O: it plans super-steps, applies writes and yields effects."""

from __future__ import annotations
