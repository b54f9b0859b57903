"""Benchmarks of the engine compared with LangGraph: ``python -m tools.benchmarks``."""
