"""The job of all products: check a refund, wait for the decision of a person, pay the refund."""

from __future__ import annotations

import os

#: Number of processes that execute jobs.
WORKERS = 2
#: Environment variable with the name of the product's module.
PRODUCT = "HITL_BENCH_PRODUCT"
#: Environment variable with the URL of the Redis server.
REDIS = "HITL_BENCH_REDIS"

CUSTOMER, CENTS = "Dana K.", 12000


def check(cents: int) -> bool:
    return cents < 100_000


def make_title(customer: str, cents: int) -> str:
    return f"Refund {cents / 100:.2f} EUR to {customer}"


def pay(*, approved: bool) -> str:
    return "paid" if approved else "declined"


def get_database_url() -> str:
    return os.environ["DATABASE_URL"]
