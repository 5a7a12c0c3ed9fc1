"""Values and rules: pure, no file, no process, no clock."""
