"""The reference program: what a student has written after the last stage."""
