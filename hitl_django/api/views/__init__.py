"""One class for each address: permission, service call, rendering."""

from __future__ import annotations
