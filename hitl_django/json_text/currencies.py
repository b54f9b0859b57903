"""Amounts in the minor unit of a currency, such as cents."""

from __future__ import annotations

from decimal import Decimal

#: Number of decimal places by currency, for currencies that don't have two (ISO 4217).
DIGITS = {
    "BHD": 3, "BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "IQD": 3, "ISK": 0, "JOD": 3, "JPY": 0,
    "KMF": 0, "KRW": 0, "KWD": 3, "LYD": 3, "OMR": 3, "PYG": 0, "RWF": 0, "TND": 3, "UGX": 0,
    "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
}  # fmt: skip


def convert_minor_units(value: int, currency: str) -> Decimal:
    """Convert an amount in minor units to the major unit, with all decimals of the currency."""
    return Decimal(value).scaleb(-DIGITS.get(currency, 2))
