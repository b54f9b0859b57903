"""The demo's customers, the subjects of some of its runs."""

from __future__ import annotations

#: Their names by their numbers, as the requests have them.
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
    """Create the customers that are missing; leave those that exist as they are."""
    from .models import Customer  # only where the project's settings are in use

    for number, name in CUSTOMERS.items():
        email = f"{number}@customers.example"
        Customer._default_manager.get_or_create(
            number=number, defaults={"name": name, "email": email}
        )
