"""The broker that Q_CLUSTER selects."""

from __future__ import annotations

from django_q.conf import Conf

from hitl_django.db.alias import write_alias

#: The broker that replaces django-q2's ORM broker, and also watches the runs.
RUN_BROKER = "hitl_django.contrib.django_q2.run_broker.RunBroker"


def shares_transaction() -> bool:
    """Return whether the broker's tables are in the database that contains the runs."""
    return not _has_other_broker() and write_alias() == Conf.ORM


def uses_redis() -> bool:
    """Return whether django-q2 uses Redis because no other broker is configured."""
    return not (_has_other_broker() or Conf.ORM or Conf.MONGO)


def watch_runs() -> None:
    """Replace django-q2's ORM broker with RUN_BROKER in this process.

    If another broker is configured, or the ORM broker uses another database than the runs, nothing
    happens.
    """
    if shares_transaction():
        Conf.BROKER_CLASS = RUN_BROKER


def _has_other_broker() -> bool:
    chosen = None if Conf.BROKER_CLASS == RUN_BROKER else Conf.BROKER_CLASS
    return bool(chosen or Conf.IRON_MQ or Conf.SQS)
