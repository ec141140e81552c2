"""Tables from anywhere: CSV, JSON lines and Parquet, plain or gzip, a path or standard input, rows with their place."""
