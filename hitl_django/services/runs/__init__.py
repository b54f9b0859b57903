"""Services about runs and threads: start, cancel, retry, fork, state, history, erase, health."""

from __future__ import annotations
