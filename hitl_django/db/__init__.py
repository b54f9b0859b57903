"""Prepared SQL based on the ORM: queries, bulk inserts, write batches, retries and connections."""

from __future__ import annotations
