"""Judging the replies of another task, as a task: what a served teacher is asked, and what the rules answer."""
