"""Runs lessons: straight through, step by step, in an editor or as a notebook."""
