"""The text environments of the project, one package for each task; `castaway.tasks` holds their contract."""
