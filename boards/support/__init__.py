"""What boards share. What is where: README.md beside this file."""
