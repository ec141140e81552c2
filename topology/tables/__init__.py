"""Tables from anywhere: CSV, JSON lines and Parquet, plain or gzip, a path or standard input, each row with its place.

``byte_stream`` opens, ``text_rows`` reads CSV and JSON lines a row at a time, ``parquet_file`` reads Parquet by rows or
columns, ``arrow_columns`` the columns of CSV; ``bad_rows`` decides what becomes of a row that is wrong.
"""
