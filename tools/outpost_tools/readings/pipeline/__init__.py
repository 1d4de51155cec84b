"""From the collector's segments to tables, with Spark. INSIDE.md describes each module."""
