"""Building the book: its chapters and test modules, computing what is missing of them, and its pages."""
