"""Lint and plan the GPU memory of LLM inference engines on Kubernetes, without a GPU."""

__version__ = "0.1.0"
