"""STRICTBOT: a tutor gets one question and gives one answer, which must be as strict as the question deserves."""
