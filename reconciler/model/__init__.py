"""The vocabulary that every room speaks: names, errors, what is desired and what is live."""
