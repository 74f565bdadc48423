"""One module per family of architectures: from config keys to layers."""
