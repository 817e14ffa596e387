"""Models that chapters share: `wordmodel` (next words), `skipgram` (words around words), `multilabel` (tags)."""
