"""For test_memory.py."""
