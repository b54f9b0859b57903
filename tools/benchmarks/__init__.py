"""How fast the engine is, measured beside LangGraph: ``python -m tools.benchmarks``."""
