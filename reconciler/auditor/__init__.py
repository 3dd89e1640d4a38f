"""What is wrong with tables and their data: probes, rules and history."""
