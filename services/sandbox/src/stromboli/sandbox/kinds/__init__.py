"""What each built-in kind does differently: defaults, rules, and what may change."""
