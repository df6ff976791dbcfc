"""The passes that turn engine calls into what a delegate can take."""
