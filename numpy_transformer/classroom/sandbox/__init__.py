"""Runs a student's file in a separate process that sees only its inputs, and reads back plain arrays."""
