"""The sampler audit: a build's samplers against the reference, bit for bit."""
