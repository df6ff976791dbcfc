"""Files on both ends: reading what is in them without running it, writing them whole or not at all."""
