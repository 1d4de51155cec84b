"""The ready program: measure, encode, publish, sleep. What is where: README.md beside this file."""
