"""A slot's part of queryable state: which states it has, and answers for its key groups."""
