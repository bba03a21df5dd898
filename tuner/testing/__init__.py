"""Shipped for tests: a scripted device and the contract suite that every device must pass.

``device_contract`` needs pytest; ``fake_device`` does not.
"""
