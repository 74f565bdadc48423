"""Demand against cache: workloads, capacity, the progress reserve, and a model of the engine's scheduler."""
