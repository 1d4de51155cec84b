"""The ready program: measures, encodes, publishes, sleeps. README.md lists the modules."""
