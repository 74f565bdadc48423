"""GPU memory of an engine, per rank. Pure arithmetic: no YAML, no Kubernetes, no files, no network, no global state."""
