"""What an audit found: one document, and one module for each form it is shown in."""
