"""Pure values: what a workload, config, protocol, outcome and record are. Standard library only."""
