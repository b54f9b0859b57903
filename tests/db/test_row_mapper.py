"""A record makes instances that can't be told from those of the model's own constructor."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model

from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.prepared_query import PreparedSelect
from hitl_django.db.row_mapper import RowMapper
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread


@pytest.mark.parametrize("model", [Thread, Run, Interrupt, Decision, AuditEntry])
def test_what_is_not_given_has_its_default(model: type[Model]) -> None:
    made, constructed = vars(RowMapper(model).new()), vars(model())
    assert made.keys() == constructed.keys()
    assert {name: type(value) for name, value in made.items()} == {
        name: type(value) for name, value in constructed.items()
    }
    plain = (str, int, bool, type(None), list, dict)
    own = {name for name, value in constructed.items() if isinstance(value, plain)}
    assert {name: made[name] for name in own} == {name: constructed[name] for name in own}


def test_no_two_share_what_is_made_for_each() -> None:
    record: RowMapper[Any] = RowMapper(Interrupt)
    one, other = record.new(), record.new()
    assert one.pk != other.pk
    assert one.allowed_decisions is not other.allowed_decisions
    assert record.new(id=one.pk).pk == one.pk


def test_a_column_that_the_model_has_not_got_is_refused() -> None:
    with pytest.raises(TypeError, match="Thread has no column grpah"):
        RowMapper(Thread).new(grpah="x")


@pytest.mark.django_db
def test_a_row_that_was_read_is_as_the_manager_reads_it() -> None:
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
