"""Verbs of ``manage.py hitl``."""
