"""What a replay showed, for people and other programs: tables of rows by file format, and drawings of frames."""
