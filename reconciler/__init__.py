"""Terraform for Lance tables."""
