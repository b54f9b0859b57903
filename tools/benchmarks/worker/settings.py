"""Settings of the measured clusters, as the guides recommend them for high throughput."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, INSTALLED_APPS, REDIS_URL

INSTALLED_APPS = [*(app for app in INSTALLED_APPS if app != "tests"), __package__]
DATABASES["default"]["CONN_MAX_AGE"] = None

Q_CLUSTER: dict[str, Any] = {
    "name": "bench",
    **({"redis": REDIS_URL} if REDIS_URL else {"orm": "default"}),
    "workers": 2,
    "timeout": 60,
    "retry": 90,
    "max_attempts": 5,
    "ack_failures": True,
    "bulk": 10,
    "queue_limit": 50,
    "recycle": 5000,
    **json.loads(os.environ.get("TEST_Q_CLUSTER", "{}")),
}
