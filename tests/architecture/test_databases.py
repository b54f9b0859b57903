"""The meaning of DATABASE_URL for a test run and for the processes that it starts."""

from __future__ import annotations

import pytest
from django.db import connection

from tests import databases


def test_database_url_with_host_in_query_uses_the_socket_directory() -> None:
    entry = databases.from_url("postgresql://postgres:@/shop?host=/run/pg&sslmode=disable")
    assert (entry["NAME"], entry["USER"], entry["HOST"]) == ("shop", "postgres", "/run/pg")
    assert entry["OPTIONS"] == {"sslmode": "disable"}


def test_database_url_with_port_and_quoted_password_is_parsed() -> None:
    entry = databases.from_url("postgres://ann:p%40ss@db.example:5433/shop")
    assert (entry["HOST"], entry["PORT"], entry["PASSWORD"]) == ("db.example", "5433", "p@ss")


def test_database_url_with_unknown_scheme_raises_value_error() -> None:
    with pytest.raises(ValueError, match="mysql"):
        databases.from_url("mysql://localhost/shop")


def test_database_url_for_child_processes_names_the_test_database(database_url: str) -> None:
    entry = databases.from_url(database_url)
    for key in ("ENGINE", "NAME", "USER", "HOST"):
        assert entry.get(key, "") == connection.settings_dict.get(key, "")
