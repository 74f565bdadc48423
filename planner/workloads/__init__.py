"""Kubernetes objects → workloads: pod templates, replica groups, GPUs, volumes, probes."""
