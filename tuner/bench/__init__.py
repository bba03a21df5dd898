"""The bench half: build, validate and measure, in a worker process. Knows no database."""
