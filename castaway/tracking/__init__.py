"""What DVC and MLflow know of a stage: its entry in dvc.yaml, its files, its run. No other room imports them."""
