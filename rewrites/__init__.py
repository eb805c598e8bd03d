"""Rules that rewrite the algebra, and the engine that runs and records them."""
