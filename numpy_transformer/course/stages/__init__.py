"""Build your own Transformer."""
