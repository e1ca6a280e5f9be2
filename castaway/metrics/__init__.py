"""Results for people: charts, tables, comparisons. No stage computes with it."""
