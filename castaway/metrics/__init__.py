"""Statistics and reports: confidence intervals, ranking metrics, charts and tables."""
