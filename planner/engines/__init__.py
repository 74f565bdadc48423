"""A container's command line and environment → ``EngineConfig``, by engine and version."""
