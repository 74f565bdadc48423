"""Flag tables of the engines, and the tool that makes them: ``python -m planner.catalog.engines.update vllm 0.33.0``.

A lint run reads only the JSON files of this folder; the modules beside them serve the tool.
"""
