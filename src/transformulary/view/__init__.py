"""Attention as pictures."""
