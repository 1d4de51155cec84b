"""From the collector's segments to tables, by Spark. README.md says what each module does."""
