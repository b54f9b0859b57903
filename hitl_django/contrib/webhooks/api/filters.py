"""Query parameters of the list of deliveries."""

from __future__ import annotations

import django_filters as filters

from hitl_django.api.filters import FilterSet, OrderFilter

from ..event_labels import list_choices
from ..models import Delivery


class DeliveryFilterSet(FilterSet):
    """Filters of deliveries by state and event."""

    state = filters.ChoiceFilter(choices=Delivery.State.choices, label="Delivery state.")
    event = filters.ChoiceFilter(choices=list_choices(), label="Their event.")
    ordering = OrderFilter("created_at")
