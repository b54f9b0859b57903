"""DATABASE_URL means the same to a test run and to the processes it starts."""

from __future__ import annotations

import pytest
from django.db import connection

from tests import databases


def test_socket_directory_is_read_from_the_query() -> None:
    entry = databases.from_url("postgresql://postgres:@/shop?host=/run/pg&sslmode=disable")
    assert (entry["NAME"], entry["USER"], entry["HOST"]) == ("shop", "postgres", "/run/pg")
    assert entry["OPTIONS"] == {"sslmode": "disable"}


def test_host_port_and_quoted_password_are_read() -> None:
    entry = databases.from_url("postgres://ann:p%40ss@db.example:5433/shop")
    assert (entry["HOST"], entry["PORT"], entry["PASSWORD"]) == ("db.example", "5433", "p@ss")


def test_unknown_scheme_is_rejected() -> None:
    with pytest.raises(ValueError, match="mysql"):
        databases.from_url("mysql://localhost/shop")


def test_child_process_gets_the_same_database(database_url: str) -> None:
    entry = databases.from_url(database_url)
    for key in ("ENGINE", "NAME", "USER", "HOST"):
        assert entry.get(key, "") == connection.settings_dict.get(key, "")
