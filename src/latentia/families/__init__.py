"""Families: what the joint distribution of rows and classes looks like."""
