"""Model instances made by the row mapper, compared with those of the model's constructor."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from threading import Thread as OsThread
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model

from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.prepared_query import PreparedSelect
from hitl_django.db.row_mapper import RowMapper
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread, WorkerHeartbeat


@pytest.mark.parametrize("model", [Thread, Run, Interrupt, Decision, AuditEntry])
def test_row_mapper_new_fills_missing_columns_with_model_defaults(model: type[Model]) -> None:
    made, constructed = vars(RowMapper(model).new()), vars(model())
    assert made.keys() == constructed.keys()
    assert {name: type(value) for name, value in made.items()} == {
        name: type(value) for name, value in constructed.items()
    }
    plain = (str, int, bool, type(None), list, dict)
    own = {name for name, value in constructed.items() if isinstance(value, plain)}
    assert {name: made[name] for name in own} == {name: constructed[name] for name in own}


def test_row_mapper_new_does_not_share_mutable_defaults_between_rows() -> None:
    record: RowMapper[Any] = RowMapper(Interrupt)
    one, other = record.new(), record.new()
    assert one.pk != other.pk
    assert one.allowed_decisions is not other.allowed_decisions
    assert record.new(id=one.pk).pk == one.pk


def test_row_mapper_new_with_unknown_column_raises_type_error() -> None:
    with pytest.raises(TypeError, match="Thread has no column grpah"):
        RowMapper(Thread).new(grpah="x")


@pytest.mark.django_db
def test_row_read_by_row_mapper_equals_row_read_by_model_manager() -> None:
    insert, record = BulkInsert(Thread, insertable_columns(Thread), fresh=True), RowMapper(Thread)
    made = record.new(thread_id="one", metadata={"a": [1]})
    assert made._state.adding
    insert.run(DEFAULT_DB_ALIAS, [insert.values_of(made)])
    find = PreparedSelect(lambda: Thread.objects.values_list(*record.names))
    read, known = record.read(DEFAULT_DB_ALIAS, find.run(DEFAULT_DB_ALIAS)[0]), Thread.objects.get()
    assert read == known
    assert not read._state.adding
    assert read._state.db == known._state.db
    assert {**vars(read), "_state": None} == {**vars(known), "_state": None}
    read.graph = "named since"
    read.save()
    assert Thread.objects.get().graph == "named since"


@pytest.fixture
def _phoenix() -> Iterator[None]:
    def change(zone: str | None) -> None:
        connections["default"].settings_dict["TIME_ZONE"] = zone
        for name in ("timezone", "timezone_name"):
            vars(connections["default"]).pop(name, None)

    change("America/Phoenix")
    yield
    change(None)


def read(mapper: RowMapper[WorkerHeartbeat]) -> Any:
    values: dict[str, Any] = dict.fromkeys(mapper.names)
    at = next(f.attname for f in mapper.fields if f.get_internal_type() == "DateTimeField")
    values[at] = datetime(2026, 3, 1, 12)  # as returned by SQLite
    return getattr(mapper.read("default", [*values.values()]), at)


@pytest.mark.database("sqlite")
@pytest.mark.django_db(transaction=True)
def test_row_mapper_reads_datetime_in_time_zone_of_its_connection(request: Any) -> None:
    mapper = RowMapper(WorkerHeartbeat)
    found: list[Any] = []
    other = OsThread(target=lambda: found.append(read(mapper)))
    other.start()
    other.join()
    request.getfixturevalue("_phoenix")
    found.append(read(mapper))
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert found == [noon, noon.replace(tzinfo=timezone(timedelta(hours=-7)))]
