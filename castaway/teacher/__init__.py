"""Teachers: who judges, corrects and criticises every move of the student."""
