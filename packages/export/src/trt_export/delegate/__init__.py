"""The delegate's side of lowering: which nodes it takes, and the payload that it is given."""
