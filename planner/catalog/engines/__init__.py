"""The tool that makes the flag tables of the engines: ``python -m planner.catalog.engines.update vllm 0.33.0``.

A lint run reads only the tables themselves, which are data in ``schemas/engines``; the modules here serve the tool.
"""
