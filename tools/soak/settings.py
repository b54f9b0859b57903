"""Settings of the soak test: the settings of the tests, with realistic timings."""

from __future__ import annotations

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, Q_CLUSTER

INSTALLED_APPS = [*INSTALLED_APPS, "tools.soak.apps.SoakConfig"]
SECRET_KEY_FALLBACKS = json.loads(os.environ.get("SOAK_OLD_KEYS", "[]"))

Q_CLUSTER |= {"log_level": "WARNING", "timeout": 120, "retry": 180}
HITL: dict[str, object] = {"RETENTION_DAYS": 1 / 24, **json.loads(os.environ["SOAK_HITL"])}
