"""The compared products, each configured as in its own documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..stores import POSTGRES, SQLITE


@dataclass(frozen=True, slots=True)
class Product:
    """A product, or a combination of products, that executes the job.

    Attributes:
        title: the title in the table, with a placeholder for the version of each package.
        module: the module of this package with the functions ``prepare``, ``programs``, ``start``,
            ``list_pending`` and ``decide``.
        packages: the packages in the title.
        needs_redis: whether a Redis server carries the messages to the workers.
    """

    title: str
    module: str
    packages: Sequence[str]
    databases: Sequence[str] = (POSTGRES, SQLITE)
    needs_redis: bool = False


PRODUCTS = {
    "hitl-django": Product("hitl-django, django-q2 {django-q2}", "hitl_django_job", ("django-q2",)),
    "dbos": Product("DBOS {dbos}", "dbos_job", ("dbos",)),
    "langgraph": Product(
        "LangGraph {langgraph}, Celery {celery} and a table of requests",
        "langgraph_job",
        ("langgraph", "celery"),
        needs_redis=True,
    ),
    "viewflow": Product(
        "Viewflow {django-viewflow}, Celery {celery}",
        "viewflow_job",
        ("django-viewflow", "celery"),
        needs_redis=True,
    ),
    "django-q2": Product(
        "django-q2 {django-q2} and a table, without durable steps", "django_q2_job", ("django-q2",)
    ),
    "absurd": Product(
        "Absurd {absurd-sdk}, without a list of requests",
        "absurd_job",
        ("absurd-sdk",),
        (POSTGRES,),
    ),
}
