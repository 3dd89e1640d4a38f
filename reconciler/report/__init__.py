"""Render an audit document: one module for each format."""
