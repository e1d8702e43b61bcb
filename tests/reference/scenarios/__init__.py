"""Small fits and calls, a file for each room; `SCENARIOS` of each is a `Group`."""
