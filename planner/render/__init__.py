"""Kustomizations and Helm charts, rendered with the tools that are installed, when asked: ``planner lint --render``."""
