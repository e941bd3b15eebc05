"""Finding the build that brought or removed something, in an ordered range of releases.

``search`` decides which release to look at next and knows nothing of releases; ``questions`` looks at one;
``session`` runs the two against each other, with a log to resume from; ``report`` says what came out.
"""
