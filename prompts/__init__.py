"""What agents are told: prompt files with named slots, and the patterns that read answers."""
