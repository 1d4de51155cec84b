"""The subcommands for boards and their firmware, one module each; options.py has the options that
several share."""
