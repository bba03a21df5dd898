"""Taking jobs from the queue and running each in a process of its own (``tuner work``)."""
