"""Ways in from frameworks: each translates to the gate's two verbs, and judges nothing itself."""
