"""Worker processes: the boundary between the parent half and the bench half."""
