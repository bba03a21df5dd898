"""The HTTP service: a queue of jobs, ``/api/v1``, and pages. Calls ``tuner.api`` only."""
