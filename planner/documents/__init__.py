"""Bytes → documents with positions, comments and problems. Knows YAML and files, nothing of Kubernetes."""
