"""What sqlglot does not parse: declarations, pragmas, and the plan notation."""
