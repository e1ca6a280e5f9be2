"""The doctor: says whether this host can build what params.yaml describes, and what to do about what is missing."""
