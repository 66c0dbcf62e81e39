"""Full-text search that ranks as Lucene does: text analysis, stemming and BM25."""
