"""The GGUF audit: files that no honest writer makes, through our reader and through a build's."""
