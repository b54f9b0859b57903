"""Query expression for a member of a JSON object that is stored in a text column."""

from __future__ import annotations

from typing import Any

from django.db.models import F, Func, TextField


class JSONMember(Func):
    """The member of a JSON object as text, or NULL if it isn't a string, a number or a boolean.

    The key must not contain quotation marks or backslashes.
    """

    output_field = TextField()

    def __init__(self, column: str, key: str) -> None:
        super().__init__(F(column))
        self.key = key

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, params = compiler.compile(self.source_expressions[0])
        path = f'$."{self.key}"'
        # json_extract returns true as 1.
        sql = (
            f"CASE json_type({column}, %s) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' "
            f"WHEN 'object' THEN NULL WHEN 'array' THEN NULL "
            f"ELSE CAST(json_extract({column}, %s) AS TEXT) END"
        )
        return sql, (*params, path, *params, path)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, params = compiler.compile(self.source_expressions[0])
        sql = (
            f"CASE jsonb_typeof({column}::jsonb -> %s::text) WHEN 'object' THEN NULL "
            f"WHEN 'array' THEN NULL ELSE {column}::jsonb ->> %s::text END"
        )
        return sql, (*params, self.key, *params, self.key)
