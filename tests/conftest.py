"""Real builds for the tests that need a libllama: made on first use and kept in the cache.

``LLAMA_TRACKER_CACHE`` or the user's own cache; a run on a fresh machine builds two releases (some minutes).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tracker.build import Build, build_release
from tracker.cache import Cache
from tracker.releases import parse_release
from tracker.releases.channels import fetch
from tracker.vocabulary import qwen25_vocabulary

# A busy machine is no failure: nothing here is judged by how long it takes.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def cache() -> Cache:
    """The cache that builds are shared through."""
    return Cache.default()


@pytest.fixture(scope="session")
def build_0_3_36(cache: Cache) -> Build:
    """llama-cpp-python 0.3.36."""
    return build_release(fetch(parse_release("llama-cpp-python==0.3.36"), cache), cache=cache)


@pytest.fixture(scope="session")
def build_0_3_16(cache: Cache) -> Build:
    """llama-cpp-python 0.3.16."""
    return build_release(fetch(parse_release("llama-cpp-python==0.3.16"), cache), cache=cache)


@pytest.fixture(scope="session")
def vocabulary_file(cache: Cache) -> Path:
    """The Qwen2.5 vocabulary."""
    return qwen25_vocabulary(cache)
