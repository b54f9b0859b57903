"""The test project as web servers import it, with the graphs that conserve."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

wsgi, asgi = get_wsgi_application(), get_asgi_application()

import tests.chaos.graphs  # noqa: E402, F401  (registers them)
