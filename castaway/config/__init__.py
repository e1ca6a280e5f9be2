"""The parameters in `params.yaml`: how they are read, checked and, if wrong, reported."""
