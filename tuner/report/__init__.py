"""What is read back out of the database: best configs, tables, frames, exports."""
