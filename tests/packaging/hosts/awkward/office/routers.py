"""Database router: models about claims in the ledger, all others in the office's database."""

from __future__ import annotations


class LedgerRouter:
    def db_for_read(self, model, **hints):
        return "ledger" if model._meta.app_label == "claims" else None

    db_for_write = db_for_read

    def allow_relation(self, one, other, **hints):
        return (one._meta.app_label == "claims") == (other._meta.app_label == "claims")

    def allow_migrate(self, db, app_label, **hints):
        return (db == "ledger") == (app_label == "claims")
