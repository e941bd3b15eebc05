"""One llama.cpp build's C library, held in a child process."""
