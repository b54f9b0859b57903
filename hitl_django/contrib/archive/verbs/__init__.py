"""Commands of the archive for ``manage.py hitl``."""
