"""The Celery app of a project, for the tests of that task queue."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")


def make_app(broker: str | None) -> Celery:
    """Return an app, which becomes the Celery app of the process."""
    app = Celery("tests", broker=broker)
    app.conf.update(
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"polling_interval": 0.1},
        imports=["hitl_django.contrib.celery.message_task"],
        CELERY_DB_REUSE_MAX=1000,
    )
    app.set_default()
    return app


app = make_app(os.environ.get("TEST_CELERY_BROKER"))
