"""Grades a class: reads what was handed in, runs it in a sandbox, and writes tables, feedback and gradebook files."""
