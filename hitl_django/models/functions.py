"""Database functions that behave the same on all supported databases."""

from __future__ import annotations

from typing import Any

from django.db.models import DateTimeField, Func, functions
from django.utils.deconstruct import deconstructible

_NOW = "'%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f', 'NOW'"
_MOMENT = f"STRFTIME({_NOW})"
#: SQLite's own function has a resolution of seconds.
_LOCAL_MOMENT = (
    f"(django_datetime_trunc('second', {_MOMENT}, '%(zone)s', 'UTC')"
    " || SUBSTR(STRFTIME('%%%%f', 'NOW'), 3))"
)


@deconstructible(path="django.db.models.functions.datetime.Now")
class Now(functions.Now):
    """The database's current time, comparable with times that Django stores.

    SQLite has no time zones, and Django's own function returns UTC there. Django stores times in
    the time zone of the connection. This time zone is TIME_ZONE if USE_TZ is off, otherwise
    TIME_ZONE in DATABASES.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> Any:
        zone = connection.timezone_name
        template = _MOMENT if zone == "UTC" else _LOCAL_MOMENT
        return self.as_sql(compiler, connection, template=template, zone=zone, **extra_context)


class TimeFromNow(Func):
    """The database's current time plus a duration. NULL if the duration is NULL."""

    output_field = DateTimeField()

    def as_sql(self, compiler: Any, connection: Any, *args: Any, **extra_context: Any) -> Any:
        [duration] = self.get_source_expressions()
        later: Any = Now() + duration
        return compiler.compile(later.resolve_expression(compiler.query))

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> Any:
        # Django adds durations in a Python function, which SQLite would call for each row.
        if connection.timezone_name != "UTC":
            return self.as_sql(compiler, connection, **extra_context)
        template = f"STRFTIME({_NOW}, (%(expressions)s / 1000000.0) || ' seconds')"
        return super().as_sql(compiler, connection, template=template, **extra_context)
