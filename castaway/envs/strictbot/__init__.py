"""The task `strictbot`: one question in, one answer out, as strict as the question deserves."""
