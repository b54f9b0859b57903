"""Settings for several machines: one PostgreSQL, one Redis, and as many workers as you like.

All machines run the same code with the same environment:

    DJANGO_SETTINGS_MODULE=project.settings_cluster
    SECRET_KEY=…  ALLOWED_HOSTS=reviews.example.com
    DATABASE_URL=postgresql://user:password@db.example.com:5432/reviews
    REDIS_URL=redis://queue.example.com:6379/0

One of them runs ``manage.py migrate`` when a version is deployed, any of them a web server, and
each that is to work ``manage.py hitl worker``.
"""

from __future__ import annotations

import os

from project.databases import postgresql
from project.settings import *  # noqa: F403

DEBUG = False
SECRET_KEY = os.environ["SECRET_KEY"]
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "").split()

DATABASES = {"default": postgresql(os.environ["DATABASE_URL"])}

# Hints go to Redis after the commit. What it loses, the sweep finds in the database.
Q_CLUSTER = {
    "name": "hitl",
    "redis": os.environ["REDIS_URL"],
    "workers": int(os.environ.get("WORKERS", "2")),  # on each machine
    "timeout": 60,
    "retry": 90,
    "max_attempts": 5,
    "ack_failures": True,
    "queue_limit": 50,
    "recycle": 5000,  # a worker's place is empty for a while whenever it is replaced
    "save_limit": 100,
    "catch_up": False,
    "label": "Task queue",
}
