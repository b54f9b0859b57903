"""Serializers of threads, their checkpoints and state, and of the body that forks a thread."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.contenttypes.models import ContentType
from rest_framework import serializers

from hitl_django.models import Run, Thread
from hitl_django.services import RECORD_PAGE

from .fields import (
    HyperlinkField,
    JSONObjectField,
    JSONValueField,
    MethodField,
    OffsetDateTimeField,
    Query,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    StrictSerializer,
    StrictUUIDField,
)


class SubjectSerializer(serializers.Serializer):
    """The related object of a thread, an instance of one of the project's models."""

    type = MethodField(serializers.CharField())
    id = serializers.CharField(source="subject_id")

    def to_representation(self, instance: Thread) -> Any:
        return None if instance.subject_type_id is None else super().to_representation(instance)

    def get_type(self, thread: Thread) -> str:
        kind = ContentType.objects.get_for_id(thread.subject_type_id or 0)
        return f"{kind.app_label}.{kind.model}"


class ThreadSerializer(serializers.Serializer):
    """A thread with the last of its runs that you can view."""

    thread_id = serializers.CharField()
    url = HyperlinkField("thread", source="thread_id")
    graph = serializers.CharField()
    subject = SubjectSerializer(source="*", allow_null=True)
    run = StrictUUIDField(source="last_run", allow_null=True)
    state = StrictChoiceField(choices=Run.State.values, source="last_state", allow_null=True)
    created_at = OffsetDateTimeField()


class ThreadDetailSerializer(ThreadSerializer):
    """A thread with the metadata that you can view."""

    metadata = JSONObjectField()


class ErasedThreadsSerializer(serializers.Serializer):
    """The ids of the erased threads."""

    erased = serializers.ListField(
        child=serializers.CharField(), help_text="Ids: the thread, then its copies."
    )


class ThreadChange(StrictSerializer):
    """Request body with changes of a thread."""

    metadata = JSONObjectField(help_text="Keys to add or replace.")


class CheckpointSerializer(serializers.Serializer):
    """A checkpoint of a thread, without the values of the thread's state."""

    id = serializers.CharField(source="checkpoint_id")
    parent = serializers.CharField(  # type: ignore[assignment]  # a member, not the attribute
        source="parent_id", allow_null=True
    )
    step = serializers.IntegerField()
    source = serializers.CharField(  # type: ignore[assignment]
        help_text="input, loop, update or fork."
    )
    created_at = OffsetDateTimeField()


class AuditQuery(Query):
    """The start and the size of a page of the audit log."""

    after = StrictIntegerField(
        most=10**9, required=False, help_text="Return entries after this number. Default: 0."
    )
    limit = StrictIntegerField(
        least=1, most=RECORD_PAGE, required=False, help_text=f"Page size. Default: {RECORD_PAGE}."
    )


class AuditEntrySerializer(serializers.Serializer):
    """An entry of a thread's audit log. The entry's hash covers the previous entry's hash."""

    seq = serializers.IntegerField(help_text="Sequence number, starting at 1 without gaps.")
    at = OffsetDateTimeField()
    verb = serializers.CharField()
    subject = serializers.CharField(help_text="Id of the run or interrupt, if any.")
    actor = serializers.CharField(help_text="Who did it.")
    via = serializers.CharField(help_text="Source: api, admin, code, command …")
    prev_hash = serializers.CharField(help_text="Hash of the previous entry.")
    hash = serializers.CharField(help_text="SHA-256 of prev_hash + hashed.")
    hashed = serializers.CharField(help_text="The exact text that was hashed.")
    names = serializers.DictField(
        child=serializers.DictField(child=serializers.CharField()),
        help_text=(
            "Names of people, by their position in the text, which contains the SHA-256 "
            "of `salt` + `name`. An entry without a salt is a pseudonym of a person who "
            "was erased."
        ),
    )


class StateQuery(Query):
    """The checkpoint to read the state from."""

    checkpoint = StrictCharField(
        max_length=36, required=False, help_text="Checkpoint id from history/. Default: the newest."
    )


class StateSerializer(serializers.Serializer):
    """The values of a thread's channels."""

    thread_id = serializers.CharField()
    checkpoint = serializers.CharField(source="checkpoint_id", allow_null=True)
    parent = serializers.CharField(  # type: ignore[assignment]  # a member, not the attribute
        source="parent_id", allow_null=True
    )
    step = serializers.IntegerField(allow_null=True)
    source = serializers.CharField()  # type: ignore[assignment]
    next = serializers.ListField(child=serializers.CharField(), help_text="Next nodes.")
    created_at = MethodField(OffsetDateTimeField(allow_null=True))
    values = JSONValueField()

    def get_created_at(self, state: Any) -> str | None:
        at = state.created_at
        return (
            None
            if at is None
            else OffsetDateTimeField().to_representation(datetime.fromisoformat(at))
        )


class ForkBody(StrictSerializer):
    """The checkpoint to fork from, and the changes to apply."""

    checkpoint = StrictCharField(max_length=36, help_text="Checkpoint id from history/.")
    values = JSONValueField(
        required=False, help_text="State update to apply first, as if returned by a node."
    )
    as_node = StrictCharField(
        max_length=255,
        required=False,
        help_text="Node the update is attributed to. Without values the node is skipped.",
    )
