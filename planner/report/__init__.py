"""Results of a run in the formats that people and machines read. One module a format."""
