"""Stage 5, relate: which summary-delta can be computed from which, and which one is."""
