"""Views of schedules: list, create, change, pause and resume, delete."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import errors
from hitl_django.api.operations import MADE, ResponseSpec, operation
from hitl_django.api.views.base import Resource
from hitl_django.permissions import select_visible

from .. import services
from ..due_times import select_schedules
from ..errors import CodeDefinedScheduleError
from ..models import Schedule
from .serializers import ScheduleBody, ScheduleChange, ScheduleSerializer

REFUSALS = (
    errors.UnknownGraphError,
    errors.BrokenGraphError,
    errors.InvalidInputError,
    errors.EmptyInputError,
)


def select_visible_schedules(user: Any) -> QuerySet[Schedule]:
    return select_visible(select_schedules(), user)


class ScheduleResource(Resource):
    """Base class of views of schedules."""

    input_pointer = "/input"

    def find_schedule(self, schedule_id: str) -> services.ScheduleInfo:
        return services.ScheduleInfo.from_row(self.find(select_visible_schedules, pk=schedule_id))


class ScheduleList(ScheduleResource):
    """View of all schedules."""

    @operation(
        "list_schedules",
        responses={200: ResponseSpec("List of schedules.", ScheduleSerializer, paged=True)},
    )
    def get(self, request: Request) -> Response:
        """List the schedules that you may view, newest first.

        The list has a single page.
        """
        return self.render_all(ScheduleSerializer, select_visible_schedules(request.user))

    @operation(
        "create_schedule",
        body=ScheduleBody,
        keyed=True,
        responses={
            201: ResponseSpec(
                "Schedule created. Its runs are started on your behalf, as long as you "
                "have permission.",
                ScheduleSerializer,
                headers=(MADE,),
            )
        },
        errors=(*REFUSALS, errors.ThreadNotFound),
        example={"graph": "refund", "expression": "0 7 * * 1-5", "input": {"amount": 120}},
    )
    def post(self, request: Request) -> Response:
        """Create a schedule that starts runs of a graph."""
        wanted = self.read_body()
        return self.run_idempotent(
            lambda: services.create_schedule(by=request.user, **wanted),
            self.find_schedule,
            lambda made: self.render_made(ScheduleSerializer, made, status=201),
        )


class ScheduleDetail(ScheduleResource):
    """View of one schedule."""

    @operation("get_schedule", responses={200: ResponseSpec("The schedule.", ScheduleSerializer)})
    def get(self, request: Request, schedule_id: UUID) -> Response:
        """Return a schedule."""
        schedule = self.find(select_visible_schedules, pk=schedule_id)
        return Response(self.render(ScheduleSerializer, schedule))

    @operation(
        "change_schedule",
        body=ScheduleChange,
        responses={200: ResponseSpec("The updated schedule.", ScheduleSerializer)},
        errors=(*REFUSALS, CodeDefinedScheduleError),
        example={"active": False},
    )
    def patch(self, request: Request, schedule_id: UUID) -> Response:
        """Change, pause or resume a schedule.

        No runs are started for due times before the change.
        """
        changed = services.change_schedule(schedule_id, by=request.user, **self.read_body())
        return Response(self.render(ScheduleSerializer, changed))

    @operation(
        "delete_schedule",
        responses={204: ResponseSpec("Schedule deleted. Its runs are not affected.")},
        errors=(CodeDefinedScheduleError,),
    )
    def delete(self, request: Request, schedule_id: UUID) -> Response:
        """Delete a schedule.

        A schedule that is defined in code can only be paused.
        """
        services.delete_schedule(schedule_id, by=request.user)
        return Response(status=204)
