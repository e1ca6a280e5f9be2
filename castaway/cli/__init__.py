"""The command `castaway`."""
