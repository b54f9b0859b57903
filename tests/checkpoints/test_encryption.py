"""Encrypted thread state with ENCRYPTION_KEYS: unreadable in the database, unchanged for users."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import connection
from django.test import Client
from django.urls import reverse

from hitl_django import Command, interrupt
from hitl_django.checkpoints import DjangoSaver, value_deltas
from hitl_django.checkpoints.encrypted_rows import decrypt_column, decrypt_row, encrypt_row
from hitl_django.conf import hitl
from hitl_django.encryption import decrypt_text, get_key_ring
from hitl_django.engine.constants import END, START
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.serde import EncryptedSerializer, KeyRing, digest
from hitl_django.engine.types import Send
from hitl_django.extensions import list_models
from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite

pytestmark = pytest.mark.django_db

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
SECRET = "a word that nobody may read"
CONFIG = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def keys(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the keys, and store lists of a few words in parts."""
    monkeypatch.setattr(value_deltas, "MIN_BYTES", 20)
    monkeypatch.setattr(value_deltas, "SEAL_INTERVAL", 4)

    def use(*keys: str) -> None:
        settings.HITL = {**getattr(settings, "HITL", {}), "ENCRYPTION_KEYS": keys}

    return use


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    word: str
    n: int


def count(state: State) -> Any:
    n = state.get("n", 0) + 1
    update = {"log": [f"{SECRET} {n}"], "n": n, "word": SECRET}
    return Command(update=update, goto="count" if n < 9 else [Send("ask", {"word": SECRET})])


def ask(state: State) -> State:
    return {"log": [interrupt("Go on?")]}


BUILDER = (
    StateGraph(State)
    .add_node("count", count, destinations=("count", "ask"))
    .add_node("ask", ask)
    .add_edge(START, "count")
    .add_edge("ask", END)
)


def run() -> dict[str, Any]:
    graph = BUILDER.compile(checkpointer=DjangoSaver())
    graph.invoke({"word": SECRET}, CONFIG)
    graph.invoke(Command(resume=f"{SECRET}!"), CONFIG)
    return read()


def read() -> dict[str, Any]:
    graph = BUILDER.compile(checkpointer=DjangoSaver())
    assert [one.values.get("n", 0) for one in graph.get_state_history(CONFIG)][-3:] == [1, 0, 0]
    values: dict[str, Any] = graph.get_state(CONFIG).values
    return values


def stored_bytes() -> Iterator[bytes]:
    for model in (Checkpoint, ChannelBlob, PendingWrite):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {model._meta.db_table}")
            for row in cursor.fetchall():
                yield from (bytes(one) for one in row if isinstance(one, bytes | memoryview))


def is_readable() -> bool:
    return any(SECRET.encode() in data for data in stored_bytes())


def test_encrypted_checkpoints_contain_no_plaintext_and_restore_equal_state(keys: Any) -> None:
    expected = run()
    assert is_readable()
    DjangoSaver().delete_thread("t")
    keys(NEW)
    assert run() == expected
    assert not is_readable()
    assert ChannelBlob.objects.exists()
    assert PendingWrite.objects.exists()


def test_equal_values_encrypted_twice_have_different_digests(keys: Any) -> None:
    keys(NEW)
    run()
    first = {*ChannelBlob.objects.values_list("digest", flat=True)}
    DjangoSaver().delete_thread("t")
    run()
    assert first.isdisjoint(ChannelBlob.objects.values_list("digest", flat=True))


def test_thread_stored_before_first_encryption_key_is_readable_and_continues(keys: Any) -> None:
    graph = BUILDER.compile(checkpointer=DjangoSaver())
    graph.invoke({"word": SECRET}, CONFIG)
    keys(NEW)
    resumed = BUILDER.compile(checkpointer=DjangoSaver()).invoke(Command(resume="yes"), CONFIG)
    assert resumed["log"][-2:] == [f"{SECRET} 9", "yes"]
    assert read()["log"] == resumed["log"]


def test_checkpoints_encrypted_with_old_key_are_readable_and_new_checkpoints_use_the_first_key(
    keys: Any,
) -> None:
    keys(OLD)
    expected = run()
    keys(NEW, OLD)
    assert read() == expected
    DjangoSaver().delete_thread("t")
    assert run() == expected
    keys(NEW)
    assert read() == expected


@pytest.mark.promise("P14")
def test_reading_checkpoints_without_their_key_raises_corrupt_payload_error(keys: Any) -> None:
    keys(OLD)
    run()
    before = list(stored_bytes())
    keys(NEW)
    with pytest.raises(CorruptPayloadError, match="with a key that is not configured"):
        read()
    keys()
    with pytest.raises(CorruptPayloadError, match="ENCRYPTION_KEYS"):
        read()
    assert list(stored_bytes()) == before


@pytest.mark.promise("P14")
@pytest.mark.parametrize("model", [Checkpoint, ChannelBlob, PendingWrite])
def test_modified_byte_in_encrypted_row_raises_corrupt_payload_error(keys: Any, model: Any) -> None:
    keys(NEW)
    BUILDER.compile(checkpointer=DjangoSaver()).invoke({"word": SECRET}, CONFIG)
    column = "scalars" if model is Checkpoint else "data"
    row = model.objects.exclude(**{column: b""}).order_by("-pk")[0]
    data = bytearray(getattr(row, column))
    data[-1] ^= 1
    model.objects.filter(pk=row.pk).update(**{column: bytes(data)})
    with pytest.raises(CorruptPayloadError, match="is corrupt: digest mismatch"):
        list(DjangoSaver().list(CONFIG))


def test_encrypted_row_with_changed_unencrypted_prefix_raises_corrupt_payload_error(
    keys: Any,
) -> None:
    keys(NEW)
    data = b"head" + SECRET.encode()
    stored, stored_digest = encrypt_row(data, digest(data), 4, get_key_ring())
    assert stored.startswith(b"head")
    assert decrypt_row(stored, stored_digest, 4, "value") == (data, digest(data))
    other = b"HEAD" + stored[4:]
    with pytest.raises(CorruptPayloadError):
        decrypt_row(other, digest(other), 4, "value")


def test_copy_thread_and_prune_leave_encrypted_state_readable(keys: Any) -> None:
    keys(NEW)
    expected = run()
    saver = DjangoSaver()
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    graph = BUILDER.compile(checkpointer=DjangoSaver())
    assert graph.get_state(CONFIG).values == expected
    assert graph.get_state({"configurable": {"thread_id": "copy"}}).values == expected
    assert not is_readable()


def test_admin_pages_show_decrypted_checkpoint_values(
    keys: Any, settings: Any, client: Client
) -> None:
    keys(NEW)
    settings.HITL = {**settings.HITL, "ADMIN_SHOW_ENGINE_MODELS": True}
    run()
    client.force_login(User.objects.create_superuser("root"))
    shown = {
        model: client.get(
            reverse(f"admin:hitl_django_{model._meta.model_name}_change", args=[row.pk])
        ).content.decode()
        for model, row in (
            (Checkpoint, Checkpoint.objects.exclude(writes=b"").order_by("-pk")[0]),
            (PendingWrite, PendingWrite.objects.order_by("-pk")[0]),
        )
    }
    assert all("can&#x27;t be decrypted" not in page for page in shown.values())
    assert SECRET in shown[Checkpoint]


@pytest.mark.parametrize("wrong", ["short", ["short"], [5], [""], ["ü" * 44]])
def test_system_check_reports_invalid_encryption_key_without_revealing_the_key(
    settings: Any, wrong: Any
) -> None:
    settings.HITL = {"ENCRYPTION_KEYS": wrong}
    found = [one for one in run_checks() if "ENCRYPTION_KEYS" in one.msg]
    assert [one.id for one in found] == ["hitl_django.E003"]
    assert "short" not in found[0].msg
    assert wrong == hitl.ENCRYPTION_KEYS


def test_encrypted_serializer_restores_only_values_encrypted_with_a_key_of_its_key_ring() -> None:
    serde = EncryptedSerializer(KeyRing([NEW]))
    kind, data = serde.dumps_typed(SECRET)
    assert kind == "msgpack+aes-256-gcm"
    assert SECRET.encode() not in data
    assert EncryptedSerializer(KeyRing([OLD, NEW])).loads_typed((kind, data)) == SECRET
    with pytest.raises(CorruptPayloadError, match="with a key that is not configured"):
        EncryptedSerializer(KeyRing([OLD])).loads_typed((kind, data))
    with pytest.raises(CorruptPayloadError, match="'aes', not"):
        serde.loads_typed(("msgpack+aes", data))
    graph = BUILDER.compile(checkpointer=InMemorySaver(serde=serde))
    graph.invoke({"word": SECRET}, CONFIG)
    assert graph.invoke(Command(resume="x"), CONFIG)["log"][-1] == "x"


def test_every_binary_column_is_encrypted_or_declared_unencrypted() -> None:
    """A new binary column must be encrypted or listed as unencrypted."""
    columns = {
        (model.__name__, field.name)
        for model in list_models()
        for field in model._meta.concrete_fields
        if field.get_internal_type() == "BinaryField"
    }
    assert columns == {
        ("ArchivedThread", "document"),
        ("Checkpoint", "data"),  # names and versions
        ("Checkpoint", "metadata"),  # keys of the config by which checkpoints are selected
        ("Checkpoint", "scalars"),
        ("Checkpoint", "writes"),
        ("ChannelBlob", "data"),
        ("PendingWrite", "data"),
        ("StoreItem", "namespace"),  # columns by which items are selected
        ("StoreItem", "vectors"),
    }


#: Values that the first version with encryption stored with the key LANDED. They stay readable.
LANDED = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
TEXT = "@hitl:e:wG57TMckGwHkh/BDvh57fmFEXSPJNE+ZuYHqiH9bclTZZf/HwK6iXylhRUiGKsUlB8aBmp/6QJzzeVx6"
ROW = (
    "68656164c145c06e7b4cd742cc99d82ec09f98a280003ae2a348e05a744d916452b061559c6a05d0a8496d97f7ec"
    "4037334a5857e291d531bd40437994"
)
COLUMN = (
    "c145c06e7b4cf2add5744f0c61dcda6a1ea81555b9eae3d61f0fd5a153e7c8fd524ddff217eeca116c5206adbd"
)


def test_encrypted_text_and_row_recorded_by_earlier_version_are_decrypted(keys: Any) -> None:
    keys(NEW, LANDED)
    text = decrypt_text(TEXT, "hitl_django_interrupt.payload")
    assert json.loads(text) == {"amount": 120.5, "to": "Zoë"}
    clear = b"head\x93\x01\x02\xa3Zo\xc3"
    row = bytes.fromhex(ROW)
    assert decrypt_row(row, digest(row), 4, "value") == (clear, digest(clear))
    assert decrypt_column(bytes.fromhex(COLUMN)) == clear
