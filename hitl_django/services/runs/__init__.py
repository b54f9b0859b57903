"""Services for runs and threads: start, cancel, retry, fork, state, history, erasure and health."""

from __future__ import annotations
