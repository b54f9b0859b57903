"""The test project for web servers, with the graphs of the chaos tests."""

from __future__ import annotations

import logging
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

wsgi, asgi = get_wsgi_application(), get_asgi_application()

import tests.chaos.graphs  # noqa: E402, F401  (registers them)
from tests.attacks.graphs import register_graphs  # noqa: E402

register_graphs()

# Tests search the server's output for Django's log messages.
logging.basicConfig(level=logging.INFO)
