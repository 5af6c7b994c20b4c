"""The side of the learner: lessons run straight through, step by step, in an editor or as a notebook."""
