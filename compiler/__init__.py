"""From a view file to a maintenance plan: the stages, as pure functions on immutable data."""
