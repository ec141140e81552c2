"""What a replay showed, for people and other programs: self-contained pages, and exports."""
