"""Process that sets up a Django project with some apps and prints the cost as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import django
import psutil
from django.conf import settings

PROJECT: dict[str, Any] = {
    "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    "Q_CLUSTER": {"orm": "default", "retry": 120, "timeout": 90},
}

#: Packages that django-q2 imports if they are installed. Neither package requires them.
OPTIONAL = ("croniter", "prometheus_client", "setproctitle")

if __name__ == "__main__":
    sys.modules.update(dict.fromkeys(OPTIONAL))  # type: ignore[arg-type]  # not installed
    settings.configure(INSTALLED_APPS=sys.argv[1:], **PROJECT)
    start = time.process_time()
    django.setup()
    seconds = time.process_time() - start
    memory = psutil.Process().memory_info().rss
    print(json.dumps({"ms": 1000 * seconds, "mb": memory / 1e6, "modules": len(sys.modules)}))
