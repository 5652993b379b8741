"""Whether a kept run is what it says: read again from its own folder, and held anew."""
