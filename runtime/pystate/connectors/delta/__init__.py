"""Delta tables: the sink, by deltalake; and what the micro-batch engine has to know about Spark's source of them."""
