"""Serializers and third-party savers that were written for LangGraph."""

from __future__ import annotations

import asyncio
import importlib
import logging
import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hitl_django.engine.errors import CorruptPayloadError, UnserializableError
from hitl_django.langgraph.channels import BaseChannel
from hitl_django.langgraph.checkpoint.base import (
    EmptyChannelError,
    JsonPlusSerializer,
    copy_checkpoint,
    create_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_serializable_checkpoint_metadata,
    uuid6,
    writes_sort_key,
)
from hitl_django.langgraph.checkpoint.memory import InMemorySaver, PersistentDict
from hitl_django.langgraph.checkpoint.serde.base import SerializerCompat, maybe_add_typed_methods
from hitl_django.langgraph.checkpoint.serde.encrypted import EncryptedSerializer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langgraph.channels import LastValue as TheirLastValue
    from langgraph.checkpoint import base as theirs

CONFIG = {"configurable": {"thread_id": "1"}}

#: Names that aren't here: of DeltaChannel, which isn't either; of what LangGraph's own msgpack, its
#: revival of JSON and its allowlists are made of; and protocols that only its own modules mention.
LEFT_OUT = {
    "DeltaChannelHistory", "ChannelProtocol", "SendProtocol", "SerdeEvent", "emit_serde_event",
    "register_serde_event_listener", "InvalidModuleError", "LC_REVIVER", "Reviver", "V", "C",
    "Value", "Update", "Item", "UUID",
}  # fmt: skip


@pytest.mark.parametrize(
    "module",
    ["base", "base.id", "memory", "serde.base", "serde.encrypted", "serde.jsonplus", "serde.types"],
)
def test_public_names_of_langgraph_checkpoint_modules_exist_in_hitl_django(module: str) -> None:
    origin = importlib.import_module(f"langgraph.checkpoint.{module}")
    ours = importlib.import_module(f"hitl_django.langgraph.checkpoint.{module}")
    public = {
        name
        for name, value in vars(origin).items()
        if not name.startswith(("_", "EXT_"))
        and name not in ("TYPE_CHECKING", "EMPTY_BYTES")
        and (getattr(value, "__module__", "").startswith("langgraph") or name.isupper())
    }
    assert public - LEFT_OUT - set(vars(ours)) == set()


#: A saver as people write theirs, and a graph that it serves.
PROGRAM = """
from collections import defaultdict
from typing import Annotated, TypedDict
import operator

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt


class TableSaver(BaseCheckpointSaver[str]):
    def __init__(self, *, serde=None):
        super().__init__(serde=serde)
        self.rows, self.written = {}, defaultdict(dict)

    def get_tuple(self, config):
        ref = config["configurable"]
        thread, ns = ref["thread_id"], ref.get("checkpoint_ns", "")
        wanted = get_checkpoint_id(config)
        ids = [row for row in self.rows if row[:2] == (thread, ns)]
        found = [row for row in ids if row[2] == wanted] if wanted else sorted(ids)[-1:]
        if not found:
            return None
        (key,) = found
        kind, data, metadata, parent = self.rows[key]
        here = {"thread_id": thread, "checkpoint_ns": ns}
        return CheckpointTuple(
            {"configurable": {**here, "checkpoint_id": key[2]}},
            self.serde.loads_typed((kind, data)),
            self.serde.loads_typed(metadata),
            {"configurable": {**here, "checkpoint_id": parent}} if parent else None,
            [
                (task, channel, self.serde.loads_typed(value))
                for (task, _), (channel, value) in self.written[key].items()
            ],
        )

    def list(self, config, *, filter=None, before=None, limit=None):
        ref = config["configurable"]
        ids = [row for row in self.rows if row[:2] == (ref["thread_id"], ref.get("checkpoint_ns", ""))]
        for at, (thread, ns, checkpoint_id) in enumerate(sorted(ids, reverse=True)):
            if limit is None or at < limit:
                yield self.get_tuple(
                    {"configurable": {
                        "thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}
                )

    def put(self, config, checkpoint, metadata, new_versions):
        ref = config["configurable"]
        key = ref["thread_id"], ref.get("checkpoint_ns", ""), checkpoint["id"]
        self.rows[key] = (
            *self.serde.dumps_typed(checkpoint),
            self.serde.dumps_typed(get_checkpoint_metadata(config, metadata)),
            ref.get("checkpoint_id"),
        )
        return {"configurable": {
            "thread_id": key[0], "checkpoint_ns": key[1], "checkpoint_id": key[2]}}

    def put_writes(self, config, writes, task_id, task_path=""):
        ref = config["configurable"]
        kept = self.written[ref["thread_id"], ref.get("checkpoint_ns", ""), ref["checkpoint_id"]]
        for at, (channel, value) in enumerate(writes):
            slot = WRITES_IDX_MAP.get(channel, at)
            if slot < 0 or (task_id, slot) not in kept:
                kept[task_id, slot] = channel, self.serde.dumps_typed(value)

    async def aget_tuple(self, config):
        return self.get_tuple(config)

    async def aput(self, config, checkpoint, metadata, new_versions):
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config, writes, task_id, task_path=""):
        return self.put_writes(config, writes, task_id, task_path)


class State(TypedDict):
    log: Annotated[list, operator.add]


def begin(state):
    return Command(update={"log": ["started"]}, goto=[Send("each", {"n": n}) for n in (1, 2)])


def each(state):
    return {"log": [state["n"]]}


def ask(state):
    return {"log": [interrupt("Really?")]}


BUILDER = (
    StateGraph(State)
    .add_node("begin", begin).add_node("each", each).add_node("ask", ask)
    .add_edge(START, "begin").add_edge("each", "ask").add_edge("ask", END)
)
CONFIG = {"configurable": {"thread_id": "1", "user": "u\\0"}, "metadata": {"why": "test"}}


def run(saver):
    graph = BUILDER.compile(checkpointer=saver)
    paused = graph.invoke({"log": []}, CONFIG)
    ended = graph.invoke(Command(resume="yes"), CONFIG)
    past = [(one.next, one.values, one.metadata["step"], one.metadata["user"], one.metadata["why"])
            for one in graph.get_state_history(CONFIG)]
    fork = graph.update_state(CONFIG, {"log": ["more"]}, as_node="each")
    return paused["log"], [one.value for one in paused["__interrupt__"]], ended, past, graph.get_state(fork).next


async def arun(saver):
    graph = BUILDER.compile(checkpointer=saver)
    paused = await graph.ainvoke({"log": []}, CONFIG)
    return paused["log"], await graph.ainvoke(Command(resume="yes"), CONFIG)
"""  # noqa: E501


def load(root: str) -> dict[str, Any]:
    source = PROGRAM.replace("from langgraph.", f"from {root}.")
    names: dict[str, Any] = {"__name__": "a_saver_program"}
    exec(compile(source, "<program>", "exec", dont_inherit=True), names)
    return names


@pytest.mark.filterwarnings("ignore")
def test_third_party_saver_written_for_langgraph_runs_unchanged() -> None:
    other, here = load("langgraph"), load("hitl_django.langgraph")
    assert here["run"](here["TableSaver"]()) == other["run"](other["TableSaver"]())
    run = asyncio.run
    assert run(here["arun"](here["TableSaver"]())) == run(other["arun"](other["TableSaver"]()))


class Turned:
    """A cipher for tests: it turns every bit."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "turned", bytes(byte ^ 0xFF for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "turned"
        return bytes(byte ^ 0xFF for byte in ciphertext)


class Pickles:
    """A serializer as pickle is one."""

    dumps = staticmethod(pickle.dumps)
    loads = staticmethod(pickle.loads)


@pytest.mark.parametrize(
    "serde",
    [None, JsonPlusSerializer(), EncryptedSerializer(Turned()), Pickles(), pickle],
    ids=["ours", "given", "encrypted", "untyped", "module"],
)
def test_saver_with_each_kind_of_serializer_stores_and_restores_a_thread(
    serde: Any, tmp_path: Path
) -> None:
    here = load("hitl_django.langgraph")
    expected = here["run"](here["TableSaver"]())
    path = tmp_path / "threads"
    with InMemorySaver(serde=serde, factory=partial(PersistentDict, filename=path)) as memory:
        assert here["run"](memory) == expected
    assert here["run"](here["TableSaver"](serde=serde)) == expected
    assert (b"started" in path.read_bytes()) == (not isinstance(serde, EncryptedSerializer))


def test_saver_calls_dumps_typed_of_a_serializer_subclass() -> None:
    class Counting(JsonPlusSerializer):
        calls = 0

        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            self.calls += 1
            return super().dumps_typed(obj)

    serde = Counting()
    here = load("hitl_django.langgraph")
    here["run"](InMemorySaver(serde=serde))
    assert serde.calls


def test_value_rejected_by_serializer_raises_error_naming_the_node() -> None:
    here = load("hitl_django.langgraph")
    graph = (
        here["StateGraph"](here["State"])
        .add_node("bad", lambda state: {"log": [lambda: 1]})
        .add_edge("__start__", "bad")
        .compile(checkpointer=InMemorySaver(serde=pickle))
    )
    with pytest.raises(UnserializableError, match=r"SerializerCompat raised .*\n.*'bad'"):
        graph.invoke({"log": []}, CONFIG)


def test_encrypted_serializer_reads_unencrypted_and_writes_encrypted_data() -> None:
    stored = JsonPlusSerializer().dumps_typed({"a": 1})
    serde = EncryptedSerializer(Turned())
    assert serde.loads_typed(stored) == {"a": 1}
    assert serde.dumps_typed({"a": 1})[0] == "msgpack+turned"
    assert serde.loads_typed(serde.dumps_typed(None)) is None


def test_encrypted_serializer_reads_and_writes_aes_data_of_langgraph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aes = pytest.importorskip("Crypto.Cipher.AES", reason="pycryptodome need not be installed")
    key = b"k" * 32
    for options in ({}, {"mode": aes.MODE_GCM}):
        ours = EncryptedSerializer.from_pycryptodome_aes(key=key, **options)
        other = theirs.EncryptedSerializer.from_pycryptodome_aes(key=key, **options)
        kind, data = ours.dumps_typed("text")
        assert kind == "msgpack+aes"
        assert b"text" not in data
        assert other.loads_typed((kind, data)) == ours.loads_typed((kind, data)) == "text"
        assert ours.loads_typed(other.dumps_typed("text")) == "text"
    monkeypatch.setenv("LANGGRAPH_AES_KEY", key.decode())
    from_environment = EncryptedSerializer.from_pycryptodome_aes(mode=aes.MODE_GCM)
    assert from_environment.loads_typed((kind, data)) == "text"
    with pytest.raises(CorruptPayloadError, match="wrong key"):
        EncryptedSerializer.from_pycryptodome_aes(key=b"x" * 16).loads_typed((kind, data))
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "short")
    with pytest.raises(ValueError, match="has 5 bytes"):
        EncryptedSerializer.from_pycryptodome_aes()
    monkeypatch.delenv("LANGGRAPH_AES_KEY")
    with pytest.raises(ValueError, match="No key: pass key="):
        EncryptedSerializer.from_pycryptodome_aes()


def test_maybe_add_typed_methods_adds_typed_methods_to_a_serializer_without_typed_methods() -> None:
    serde = maybe_add_typed_methods(Pickles())
    assert isinstance(serde, SerializerCompat)
    assert serde.dumps_typed(1)[0] == "int"
    assert serde.loads_typed(serde.dumps_typed([1])) == [1]
    assert maybe_add_typed_methods(serde) is serde


def test_json_plus_serializer_stores_allowed_classes_and_logs_pickle_fallback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from dataclasses import dataclass

    @dataclass
    class Inner:
        x: int

    given = JsonPlusSerializer(allowed_msgpack_modules=[Inner, ("http", "HTTPStatus")])
    found = given.loads_typed(given.dumps_typed([Inner(1)]))
    assert found == [Inner(1)]
    with pytest.raises(UnserializableError):
        JsonPlusSerializer(allowed_msgpack_modules=True).dumps_typed([Inner(1)])
    more = JsonPlusSerializer().with_msgpack_allowlist([Inner])
    assert more.loads_typed(given.dumps_typed([Inner(1)])) == [Inner(1)]
    from http import HTTPStatus

    again = JsonPlusSerializer(allowed_json_modules=[("http", "HTTPStatus")])
    (status,) = again.loads_typed(given.dumps_typed([HTTPStatus.OK]))
    assert status is HTTPStatus.OK
    with caplog.at_level(logging.WARNING, "hitl_django"):
        JsonPlusSerializer(pickle_fallback=True)
    assert "values are never pickled" in caplog.text


def test_thread_in_persistent_dict_file_resumes_with_another_saver(tmp_path: Path) -> None:
    here = load("hitl_django.langgraph")
    make = partial(PersistentDict, filename=tmp_path / "threads")
    with InMemorySaver(factory=make) as saver:
        here["BUILDER"].compile(checkpointer=saver).invoke({"log": []}, CONFIG)
    kept = make()
    kept.load()
    again = here["BUILDER"].compile(checkpointer=InMemorySaver(factory=lambda: kept))
    resumed = again.invoke(here["Command"](resume="yes"), CONFIG)
    assert resumed["log"] == ["started", 1, 2, "yes"]


def test_checkpoint_config_and_metadata_helper_results_match_langgraph() -> None:
    config: Any = {
        "configurable": {
            "thread_id": "1", "checkpoint_id": "c", "checkpoint_ns": "", "user": "a\0b", "n": 1,
            "flag": True, "deep": {"x": 1}, "__own": 1, "langgraph_step": 2, "source": "mine",
        },
        "metadata": {"why": "x\0", "n": 2, "list": [1]},
    }  # fmt: skip
    metadata: Any = {"source": "loop", "step": 1, "note": "a\0", "writes": {"a": 1}}
    assert get_checkpoint_id(config) == theirs.get_checkpoint_id(config) == "c"
    for ours, other in (
        (get_checkpoint_metadata, theirs.get_checkpoint_metadata),
        (get_serializable_checkpoint_metadata, theirs.get_serializable_checkpoint_metadata),
    ):
        assert ours(config, metadata) == other(config, metadata)
    assert writes_sort_key("p", "t", 1) == theirs.writes_sort_key("p", "t", 1)


class Keeping(BaseChannel):
    """A channel that keeps its value, as people write them."""

    def get(self) -> Any:
        return 5


class Emptied(BaseChannel):
    """Such a channel without a value."""

    def get(self) -> Any:
        raise EmptyChannelError


def test_checkpoint_creation_helper_results_match_langgraph() -> None:
    empty: Any = empty_checkpoint()
    other: Any = theirs.empty_checkpoint()
    assert empty.keys() == other.keys() - {"pending_sends"}
    filled: Any = {
        **empty, "channel_values": {"a": [1], "b": 2}, "channel_versions": {"a": 1, "b": 2},
        "versions_seen": {"n": {"a": 1}},
    }  # fmt: skip
    copied = copy_checkpoint(filled)
    assert copied == filled
    copied["versions_seen"]["n"]["a"] = 2
    assert filled["versions_seen"] == {"n": {"a": 1}}
    assert copied["channel_values"]["a"] is filled["channel_values"]["a"]

    channels: Any = {"a": Keeping(), "b": Emptied(), "gone": Keeping()}
    made = create_checkpoint(filled, channels, 3)
    expected = theirs.create_checkpoint(
        filled,
        {
            "a": TheirLastValue(int).from_checkpoint(5),
            "b": TheirLastValue(int),
            "gone": TheirLastValue(int).from_checkpoint(5),
        },
        3,
    )
    assert made["channel_values"] == {"a": 5}
    assert expected["channel_values"]["a"] == 5  # beside a mark of its own for what is empty
    assert made["id"] > filled["id"]
    assert create_checkpoint(filled, None, 3, id="x")["id"] == "x"
    assert create_checkpoint(filled, None, 3)["channel_values"] == filled["channel_values"]
    assert str(uuid6()) < str(uuid6())
