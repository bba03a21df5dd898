"""The command line: one file a verb. Calls ``tuner.api`` and formats what it returns."""
