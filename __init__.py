"""deltafold: keeps SQL views on Spark up to date from changes alone."""
