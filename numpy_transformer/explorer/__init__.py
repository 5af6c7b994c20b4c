"""The explorer: one training step, forward and backward, as a page in the browser."""
