"""From the collector's segments to tables, with Spark. README.md describes each module."""
