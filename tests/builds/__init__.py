"""Tests that build: small projects, killed and continued; the book, whose pages a browser opens; compiled losses."""
