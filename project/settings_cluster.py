"""Settings for several machines with one PostgreSQL, one Redis, and any number of workers.

All machines run the same code with the same environment:

    DJANGO_SETTINGS_MODULE=project.settings_cluster
    SECRET_KEY=…  ALLOWED_HOSTS=reviews.example.com
    DATABASE_URL=postgresql://user:password@db.example.com:5432/reviews
    REDIS_URL=redis://queue.example.com:6379/0

On each deployment, one machine runs ``manage.py migrate``. Web servers run on any of the machines,
and ``manage.py hitl worker`` runs on each worker machine.
"""

from __future__ import annotations

import os

from project.databases import postgresql
from project.settings import *  # noqa: F403

DEBUG = False
SECRET_KEY = os.environ["SECRET_KEY"]
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "").split()

DATABASES = {"default": postgresql(os.environ["DATABASE_URL"])}

# Messages are sent to Redis after the commit. The sweep finds runs with lost messages in the
# database.
Q_CLUSTER = {
    "name": "hitl",
    "redis": os.environ["REDIS_URL"],
    "workers": int(os.environ.get("WORKERS", "2")),  # Number of worker processes on each machine.
    "timeout": 60,
    "retry": 90,
    "max_attempts": 5,
    "ack_failures": True,
    "queue_limit": 50,
    "recycle": 5000,  # The number is large because replacing a worker process takes time.
    "save_limit": 100,
    "catch_up": False,
    "label": "Task queue",
}
