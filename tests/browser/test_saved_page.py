"""A saved page, opened from a file:// address: it works alone, sends nothing, and shows the numbers of the components."""


def test_it_opens_offline_without_an_error_and_asks_for_nothing(page, kind):
    shown = page(kind).settle()
    assert shown.errors() == []
    assert [address for address in shown.requests() if not address.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert "loss" in shown.text("#header") and shown.find("#map [data-op=loss]")
