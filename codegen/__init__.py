"""From a maintenance plan to PySpark scripts, plan text and plan JSON."""
