"""What a cycle does, one file per action; `registry` is the list of them."""
