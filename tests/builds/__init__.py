"""Tests that build: small projects, killed and continued, then the book, whose pages are opened in a browser."""
