"""The compact rendering: short words for a tiny model, each a token, and a bank made of templates."""
