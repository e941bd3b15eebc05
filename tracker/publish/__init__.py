"""What the tracker says on GitHub: the plan, the texts, and the client that carries the plan out."""
