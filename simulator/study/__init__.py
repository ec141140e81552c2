"""Many replays: policies x algorithms x clusters x scales of load x seeds."""
