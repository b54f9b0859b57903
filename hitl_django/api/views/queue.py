"""Views for work on the review queue: claims, assignment, snoozing, comments and statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group
from django.db.models import QuerySet
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import errors, services
from hitl_django.db.alias import write_alias
from hitl_django.models import Comment
from hitl_django.permissions import get_policy

from .. import querysets
from ..filters import CommentFilterSet
from ..operations import ETAG, IDEMPOTENCY_KEY, REPLAYED, ResponseSpec, operation
from ..preconditions import build_etag, read_idempotency_key
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
    UndoBody,
)
from .base import Collection, Resource

CLOSED_ERRORS = (errors.AlreadyDecidedError, errors.LeaseTakenError)
INTERRUPT = ResponseSpec("The updated interrupt.", InterruptDetailSerializer, headers=(ETAG,))


class InterruptAction(Resource):
    """Base class of views that change an interrupt and return its new state."""

    def render_interrupt(self, interrupt_id: UUID) -> Response:
        """Return the interrupt's current state, with its ETag."""
        interrupt = self.find(querysets.visible_interrupts, pk=interrupt_id)
        headers = {"ETag": build_etag(interrupt)}
        return Response(self.render(InterruptDetailSerializer, interrupt), headers=headers)

    def change_interrupt(self, interrupt_id: UUID, act: Callable[[], object]) -> Response:
        """Change the interrupt once per idempotency key, and return its new state.

        ``act`` is the function that changes the interrupt.
        """
        return self.run_idempotent(
            act, lambda _: None, lambda _: self.render_interrupt(interrupt_id)
        )


class NextInterrupt(InterruptAction):
    """The next interrupt to review."""

    @operation(
        "claim_next",
        body=NextBody,
        headers=(IDEMPOTENCY_KEY,),
        responses={
            200: replace(INTERRUPT, headers=(ETAG, REPLAYED)),
            204: ResponseSpec("No interrupt is available."),
        },
        errors=(errors.IdempotencyKeyReusedError,),
        example={"graph": "refund"},
    )
    def post(self, request: Request) -> Response:
        """Claim the next unclaimed interrupt that you may decide.

        Overdue interrupts come before all other interrupts. Within both groups, interrupts are
        ordered by priority, due time and age.

        If you repeat the request with the same Idempotency-Key, the response contains the same
        interrupt, and no other interrupt is claimed.
        """
        wanted, key = self.read_body(), read_idempotency_key(request)
        group = wanted.get("group")
        if group is not None:
            # A user can't claim interrupts of groups to which the user doesn't belong.
            wanted["group"] = request.user.groups.filter(name=group).first()
            if wanted["group"] is None:
                return Response(status=204)
        before = services.find_claimed(key, by=request.user, **wanted)
        taken = before or services.claim_next(by=request.user, via="api", key=key, **wanted)
        if taken is None:
            return Response(status=204)
        response = self.render_interrupt(taken)
        if before is not None:
            response.headers[REPLAYED.name] = "true"
        return response


class InterruptClaim(Resource):
    """A user's claim on an interrupt."""

    @operation(
        "claim",
        body=ClaimBody,
        responses={200: ResponseSpec("Interrupt claimed.", ClaimSerializer)},
        keyed=True,
        errors=(*CLOSED_ERRORS, errors.ClaimedError),
        example={"seconds": 600},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Claim an interrupt for yourself, or extend your claim."""
        wanted = self.read_body()

        def claim(**more: Any) -> services.ClaimInfo:
            return services.claim(interrupt_id, by=request.user, via="api", **more)

        # A repeated request extends the claim, but doesn't replace the claim of a user who has
        # taken it over in the meantime.
        return self.run_idempotent(
            lambda: claim(**wanted),
            lambda _: claim(seconds=wanted.get("seconds")),
            lambda claimed: Response(self.render(ClaimSerializer, claimed)),
        )


class InterruptRelease(Resource):
    """The release of a claim."""

    @operation(
        "release",
        body=EmptyBody,
        responses={204: ResponseSpec("Claim released.")},
        keyed=True,
        errors=(errors.LeaseTakenError,),
        example={},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Release the claim on an interrupt.

        Releasing another user's claim requires the permission to take over claims.
        """
        self.read_body()
        return self.run_idempotent(
            lambda: services.release(interrupt_id, by=request.user, via="api"),
            lambda _: None,
            lambda _: Response(status=204),
        )


class InterruptAssignment(InterruptAction):
    """The assignment of an interrupt."""

    @operation(
        "assign",
        body=AssignBody,
        keyed=True,
        responses={200: INTERRUPT},
        errors=(*CLOSED_ERRORS, errors.InvalidInputError),
        example={"to": "rita", "group": None},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Assign an interrupt to a user who may decide it, to a group, to both, or to nobody."""
        wanted = self.read_body()
        return self.change_interrupt(
            interrupt_id,
            lambda: services.assign(
                interrupt_id,
                to=_find_user(wanted.get("to")),
                group=self._find_group(interrupt_id, wanted.get("group")),
                by=request.user,
                via="api",
            ),
        )

    def _find_group(self, interrupt_id: UUID, name: str | None) -> Group | None:
        group = None if name is None else Group.objects.filter(name=name).first()
        if name is None or group is not None:
            return group
        # Without the permission, the service raises an error that doesn't reveal whether the group
        # exists.
        interrupt = self.find(querysets.visible_interrupts, pk=interrupt_id)
        if not get_policy().may_assign(self.request.user, interrupt):
            return None
        raise errors.InvalidInputError("Group not found.", [("group", "unknown group")])


class InterruptSnooze(InterruptAction):
    """The snooze of an interrupt."""

    @operation(
        "snooze",
        body=SnoozeBody,
        keyed=True,
        responses={200: INTERRUPT},
        errors=(*CLOSED_ERRORS, errors.ClaimedError, errors.InvalidInputError),
        example={"until": "2030-01-31T12:00:00Z"},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Snooze an interrupt for all users until a time.

        A null time ends the snooze.
        """
        wanted = self.read_body()
        return self.change_interrupt(
            interrupt_id,
            lambda: services.snooze(interrupt_id, by=request.user, via="api", **wanted),
        )


class InterruptUndo(InterruptAction):
    """The undo of a decision."""

    @operation(
        "undo",
        body=UndoBody,
        keyed=True,
        responses={200: INTERRUPT},
        errors=(errors.UndoRefusedError, errors.LeaseTakenError),
        throttle="THROTTLE_DECIDE",
        example={"decision": "0191d1a0-6d3c-7c43-8a6e-3b8f3b1f6a10"},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Undo your decision before the run resumes, and claim the interrupt.

        The time limit is the setting UNDO_SECONDS. The undone decision stays in the list of
        decisions, with ``undone_at``. The interrupt is pending again, with a new version. If the
        run has already resumed, the status is 409.
        """
        wanted = self.read_body().get("decision")
        return self.change_interrupt(
            interrupt_id,
            lambda: services.undo(interrupt_id, by=request.user, via="api", decision_id=wanted),
        )


class CommentList(Collection):
    """The comments on an interrupt, oldest first."""

    serializer_class = CommentSerializer
    filterset_class = CommentFilterSet

    def get_queryset(self) -> QuerySet[Comment]:
        interrupt = self.find(querysets.visible_interrupts, pk=self.kwargs["interrupt_id"])
        if not get_policy().may_view_comments(self.request.user, interrupt):
            raise errors.NotAllowedError("You don't have permission to view the comments.")
        rows = Comment.objects.using(write_alias()).filter(interrupt=interrupt)
        return rows.order_by("created_at")

    @operation(
        "list_comments",
        responses={200: ResponseSpec("A page of comments.", CommentSerializer, paged=True)},
    )
    def get(self, request: Request, interrupt_id: UUID) -> Response:
        """List the comments on an interrupt, oldest first."""
        return self.render_page()

    @operation(
        "comment",
        body=CommentBody,
        keyed=True,
        responses={201: ResponseSpec("Comment created.", CommentSerializer)},
        errors=(errors.InvalidInputError, errors.LeaseTakenError),
        example={"text": "Dana called: half of it is fine."},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Add a comment to a pending or closed interrupt.

        Comments can't be changed.
        """
        wanted = self.read_body()
        return self.run_idempotent(
            lambda: services.comment(interrupt_id, by=request.user, via="api", **wanted),
            self._find_comment,
            lambda made: Response(self.render(CommentSerializer, made), status=201),
        )

    def _find_comment(self, comment_id: str) -> services.CommentInfo:
        found = self.get_queryset().filter(pk=comment_id).first()
        if found is None:
            raise Http404
        return services.CommentInfo.from_row(found)


class QueueStatsDetail(Resource):
    """Statistics of the review queue."""

    @operation(
        "get_stats",
        query=StatsQuery,
        responses={200: ResponseSpec("Queue statistics.", StatsSerializer)},
    )
    def get(self, request: Request) -> Response:
        """Retrieve counts of visible pending interrupts, and the median time to decision."""
        graph = self.read_query().get("graph")
        stats = services.review_stats(request.user, graph=graph)
        stats_shown: dict[str, Any] = {
            "counts": services.queue_counts(request.user, graph=graph),
            "oldest_at": stats.oldest_at,
            "median_seconds": stats.median_seconds,
            "approve_rate": stats.approve_rate,
            "last_heartbeat_at": services.last_heartbeat_at(),
        }
        return Response(self.render(StatsSerializer, stats_shown))


def _find_user(name: str | None) -> Any:
    """Return the user with this username, or None if no username is given.

    For an unknown username, the result is an AnonymousUser, which has no permissions.
    """
    if name is None:
        return None
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        return AnonymousUser()
