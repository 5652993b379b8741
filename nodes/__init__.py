"""Who acts in one step: acts, views, and the state they read and write."""
