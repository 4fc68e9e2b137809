"""Reading a scrape as Prometheus does."""

from prometheus_client.parser import text_string_to_metric_families

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series_of(text: str) -> Series:
    """Give every sample by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float | None:
    """Give one sample; None when it is not there."""
    return series_of(text).get((f"reconciler_{name}", frozenset(labels.items())))
