"""Agents and their tools, without a database."""
