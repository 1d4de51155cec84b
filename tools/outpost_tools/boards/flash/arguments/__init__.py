"""A module for each subcommand."""
