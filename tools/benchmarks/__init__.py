"""Benchmarks that compare the engine with LangGraph: ``python -m tools.benchmarks``."""
