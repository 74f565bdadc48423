"""Better configurations: changes to manifests as patches of their text, and configurations for new deployments."""
