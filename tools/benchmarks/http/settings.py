"""Settings of the measured project: those of the jobs, with connections that stay open."""

from __future__ import annotations

from ..jobs.settings import *  # noqa: F403
from ..jobs.settings import DATABASES

ROOT_URLCONF = f"{__package__}.urls"
# Connecting would take a large part of all times.
DATABASES["default"]["CONN_MAX_AGE"] = None
HITL = {f"THROTTLE_{kind}": "1000000/min" for kind in ("READ", "WRITE", "DECIDE")}
