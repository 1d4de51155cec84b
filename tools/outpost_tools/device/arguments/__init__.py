"""The subcommands about boards and their firmware, a module each; options.py has what several
take."""
