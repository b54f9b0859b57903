"""Several people at one queue: who takes what, whose turn it is, what they say to each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import errors, services
from hitl_django.db.alias import write_alias
from hitl_django.models import Comment, Interrupt
from hitl_django.permissions import get_policy

from .. import querysets
from ..filters import CommentFilter
from ..operations import ETAG, IDEMPOTENCY_KEY, REPLAYED, Shown, operation
from ..preconditions import etag_of, idempotency_key
from ..serializers.fields import EmptyBody
from ..serializers.interrupts import InterruptDetailSerializer
from ..serializers.queue import (
    AssignBody,
    ClaimBody,
    ClaimSerializer,
    CommentBody,
    CommentSerializer,
    NextBody,
    SnoozeBody,
    StatsQuery,
    StatsSerializer,
)
from .base import Collection, Resource

CLOSED = (errors.AlreadyDecidedError, errors.LeaseHeldError)
QUESTION = Shown("The question as it is now.", InterruptDetailSerializer, headers=(ETAG,))


class Turn(Resource):
    """An address that changes whose turn a question is, and shows it."""

    def shown(self, interrupt_id: UUID) -> Response:
        interrupt = querysets.interrupt(self.request.user, interrupt_id)
        headers = {"ETag": etag_of(interrupt)}
        return Response(self.render(InterruptDetailSerializer, interrupt), headers=headers)


class Next(Turn):
    """The best question that nobody holds."""

    @operation(
        "take_next",
        body=NextBody,
        headers=(IDEMPOTENCY_KEY,),
        answers={
            200: replace(QUESTION, headers=(ETAG, REPLAYED)),
            204: Shown("There is none."),
        },
        errors=(errors.IdempotencyKeyReusedError,),
        example={"graph": "refund"},
    )
    def post(self, request: Request) -> Response:
        """Claims the best free question for you and shows it: overdue, priority, due, age.

        Sent again with the same Idempotency-Key, it shows the same question instead of claiming
        another one.
        """
        wanted, key = self.body(), idempotency_key(request)
        group = wanted.get("group")
        if group is not None:
            # A group that one isn't in is none that one could take anything from.
            wanted["group"] = request.user.groups.filter(name=group).first()
            if wanted["group"] is None:
                return Response(status=204)
        before = services.taken_before(key, by=request.user, **wanted)
        taken = before or services.take_next(by=request.user, via="api", key=key, **wanted)
        if taken is None:
            return Response(status=204)
        response = self.shown(taken)
        if before is not None:
            response.headers[REPLAYED.name] = "true"
        return response


class Claim(Resource):
    """A person's lease on a question."""

    @operation(
        "claim",
        body=ClaimBody,
        answers={200: Shown("It is yours.", ClaimSerializer)},
        errors=(*CLOSED, errors.HeldError),
        example={"seconds": 600},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Holds a question for you, so that others leave it; your own claim is renewed."""
        held = services.claim(interrupt_id, by=request.user, via="api", **self.body())
        return Response(self.render(ClaimSerializer, held))


class Release(Resource):
    """The end of a claim."""

    @operation(
        "release",
        body=EmptyBody,
        answers={204: Shown("You don't hold it any more.")},
        errors=(errors.LeaseHeldError,),
        example={},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Ends your claim; somebody else's only with the permission to take over."""
        self.body()
        services.release(interrupt_id, by=request.user, via="api")
        return Response(status=204)


class Assign(Turn):
    """Whose turn it is."""

    @operation(
        "assign",
        body=AssignBody,
        answers={200: QUESTION},
        errors=(*CLOSED, errors.InvalidInputError),
        example={"to": "rita", "group": None},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Assigns a question to a user who may decide it, to a group, to both, or to nobody."""
        wanted = self.body()
        services.assign(
            interrupt_id,
            to=_person(wanted.get("to")),
            group=self._group(interrupt_id, wanted.get("group")),
            by=request.user,
            via="api",
        )
        return self.shown(interrupt_id)

    def _group(self, interrupt_id: UUID, name: str | None) -> Group | None:
        group = None if name is None else Group.objects.filter(name=name).first()
        if name is None or group is not None:
            return group
        # Which groups there are is told to nobody who may not assign: the service refuses them.
        interrupt = querysets.interrupt(self.request.user, interrupt_id)
        if not get_policy().may_assign(self.request.user, interrupt):
            return None
        raise errors.InvalidInputError("There is no such group.", [("group", "is not a group")])


class Snooze(Turn):
    """When it comes up again."""

    @operation(
        "snooze",
        body=SnoozeBody,
        answers={200: QUESTION},
        errors=(*CLOSED, errors.HeldError, errors.InvalidInputError),
        example={"until": "2030-01-31T12:00:00Z"},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Puts a question off until a moment, for everybody; null wakes it."""
        services.snooze(interrupt_id, by=request.user, via="api", **self.body())
        return self.shown(interrupt_id)


class CommentList(Collection):
    """What is said about a question, oldest first."""

    serializer_class = CommentSerializer
    filterset_class = CommentFilter

    def get_queryset(self) -> QuerySet[Comment]:
        asked: Interrupt = querysets.interrupt(self.request.user, self.kwargs["interrupt_id"])
        rows = Comment.objects.using(write_alias()).filter(interrupt=asked)
        return rows.order_by("created_at")

    @operation(
        "list_comments",
        answers={200: Shown("A page of remarks.", CommentSerializer, paged=True)},
    )
    def get(self, request: Request, interrupt_id: UUID) -> Response:
        """Lists the remarks on a question, oldest first."""
        return self.page()

    @operation(
        "comment",
        body=CommentBody,
        answers={201: Shown("It is there.", CommentSerializer)},
        errors=(errors.InvalidInputError, errors.LeaseHeldError),
        example={"text": "Dana called: half of it is fine."},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Adds a remark to a question, open or closed; nobody can change it afterwards."""
        made = services.comment(interrupt_id, by=request.user, via="api", **self.body())
        return Response(self.render(CommentSerializer, made), status=201)


class Stats(Resource):
    """How the queue goes."""

    @operation("get_stats", query=StatsQuery, answers={200: Shown("How it goes.", StatsSerializer)})
    def get(self, request: Request) -> Response:
        """Counts what waits for whom, of what you may see, and says how fast it is decided."""
        graph = self.query().get("graph")
        stats = services.review_stats(request.user, graph=graph)
        told: dict[str, Any] = {
            "counts": services.queue_counts(request.user, graph=graph),
            "oldest_at": stats.oldest_at,
            "median_seconds": stats.median_seconds,
            "approve_rate": stats.approve_rate,
            "worker_seen_at": services.worker_seen_at(),
        }
        return Response(self.render(StatsSerializer, told))


def _person(name: str | None) -> Any:
    """Return the user of that name; somebody who may do nothing where there is none."""
    if name is None:
        return None
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        return AnonymousUser()
