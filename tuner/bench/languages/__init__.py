"""One module a kernel language, each behind the ``Language`` protocol of ``base``."""
