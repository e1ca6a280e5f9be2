"""Generated data: demonstrations and preference pairs from scripted play."""
