"""One module a device kind, each behind the ``Device`` protocol of ``base``."""
