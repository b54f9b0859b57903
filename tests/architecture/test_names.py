"""The names that graphs written for LangGraph import are here."""

from __future__ import annotations

import pytest

import hitl_django

WANTED = """
    StateGraph START END MessagesState add_messages Command Send Overwrite interrupt Interrupt
    StateSnapshot StateUpdate PregelTask RetryPolicy GraphOutput Durability entrypoint task Pregel
    NodeBuilder CompiledStateGraph Runtime RunControl ExecutionInfo get_config get_runtime get_store
    get_stream_writer BaseCheckpointSaver Checkpoint CheckpointTuple CheckpointMetadata Checkpointer
    InMemorySaver MemorySaver PersistentDict JsonPlusSerializer BaseStore InMemoryStore Item
    SearchItem GetOp PutOp SearchOp ListNamespacesOp MatchCondition InvalidNamespaceError
    BaseChannel LastValue Topic BinaryOperatorAggregate AnyValue EphemeralValue UntrackedValue
    NamedBarrierValue IsLastStep RemainingSteps ToolNode tools_condition HumanInterrupt
    HumanInterruptConfig ActionRequest HumanResponse read_task_statuses TaskStatus All StreamMode
    StreamWriter ErrorCode EmptyChannelError EmptyInputError GraphBubbleUp GraphDrained
    GraphInterrupt GraphRecursionError InvalidUpdateError NodeInterrupt ParentCommand TaskNotFound
    UnknownInterruptError is_invalid_resume INPUT INTERRUPT RESUME ERROR ERROR_SOURCE_NODE NO_WRITES
    RETURN PREVIOUS ROOT COPY TASKS PUSH PULL NULL_TASK_ID NS_SEP NS_END TAG_HIDDEN WRITES_IDX_MAP
"""


@pytest.mark.parametrize("name", WANTED.split())
def test_a_name_that_is_wanted_can_be_imported(name: str) -> None:
    assert name in hitl_django.__all__
    assert getattr(hitl_django, name) is not None


def test_every_public_name_leads_somewhere() -> None:
    for name in hitl_django.__all__:
        getattr(hitl_django, name)
