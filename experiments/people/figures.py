"""Stage `report`: one file with all records."""

from experiments.people.store import Store


def stage(store: Store) -> None:
    """Nothing yet."""
