"""Times of calls, the ceilings to compare them with, recorded times, occupancy."""
