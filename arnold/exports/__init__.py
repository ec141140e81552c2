"""What a replay showed, for people and other programs: tables by file format, and a Chrome trace."""
