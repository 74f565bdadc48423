"""``config.json``, safetensors headers, the catalog and the lock file → ``ModelArchitecture``."""
