"""What runs are played on: each service as the torture fills, faults and reads it."""
