"""Other engines and brute force, to hold the oracle against (``llama-tracker control --full``)."""
