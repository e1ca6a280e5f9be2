"""How processes of this host are started, watched and stopped, and what they see of it."""
