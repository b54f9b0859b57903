"""The demo's customers, to which some of its runs are related."""

from __future__ import annotations

#: Names by customer number. The sample requests contain these numbers.
CUSTOMERS = {
    "1001": "Dana K.",
    "1002": "Jürgen Weißmüller",
    "1003": "Zoë O'Connor-Ní Bhriain",
    "1004": "Łukasz Żółw",
    "1005": "山田 太郎",
    "1006": "محمد العلي",
    "1007": "Siobhan",
    "1008": "Sven & Söhne GmbH",
    "1009": "Acme Corporation, Accounts Payable",
    "1010": "Paula",
    "1011": "Tim",
    "1012": "Tariq",
}


def create() -> None:
    """Create missing customers.

    Existing customers don't change.
    """
    from .models import Customer  # The import requires the project's settings.

    for number, name in CUSTOMERS.items():
        email = f"{number}@customers.example"
        Customer._default_manager.get_or_create(
            number=number, defaults={"name": name, "email": email}
        )
