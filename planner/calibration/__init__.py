"""Fits the uncertain terms of the memory budget to start-up logs: ``python -m planner.calibration.fit LOG.jsonl …``."""
