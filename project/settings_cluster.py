"""Settings for several machines with one PostgreSQL, one Redis, and any number of workers.

All machines run the same code with the same environment:

    DJANGO_SETTINGS_MODULE=project.settings_cluster
    SECRET_KEY=…  ALLOWED_HOSTS=reviews.example.com
    DATABASE_URL=postgresql://user:password@db.example.com:5432/reviews
    REDIS_URL=redis://queue.example.com:6379/0

One of them runs ``manage.py migrate`` on each deployment. Web servers run on any of them, and
``manage.py hitl worker`` on each worker machine.
"""

from __future__ import annotations

import os

from project.databases import postgresql
from project.settings import *  # noqa: F403

DEBUG = False
SECRET_KEY = os.environ["SECRET_KEY"]
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "").split()

DATABASES = {"default": postgresql(os.environ["DATABASE_URL"])}

# Messages are sent to Redis after the commit. The sweep requeues lost ones from the database.
Q_CLUSTER = {
    "name": "hitl",
    "redis": os.environ["REDIS_URL"],
    "workers": int(os.environ.get("WORKERS", "2")),  # on each machine
    "timeout": 60,
    "retry": 90,
    "max_attempts": 5,
    "ack_failures": True,
    "queue_limit": 50,
    "recycle": 5000,  # replacing a worker process takes a while
    "save_limit": 100,
    "catch_up": False,
    "label": "Task queue",
}
