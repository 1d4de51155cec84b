# cpython-only: counts the words of pages
"""Each page has one reader, and what users read stays short: readers.py."""

import readers


def test_each_page_has_one_reader():
    assert readers.faults(readers.tracked()) == []


def test_a_page_without_a_reader_and_one_that_is_gone_are_found():
    pages = [page for page in readers.tracked() if page != "README.md"]
    assert readers.faults([*pages, "docs/NEW.md"]) == [
        "docs/NEW.md: add it to one reader in readers.py",
        "README.md: no such page",
    ]


def test_a_page_with_two_readers_is_found(monkeypatch):
    monkeypatch.setitem(readers.PAGES, "maker", (*readers.PAGES["maker"], "README.md"))
    assert readers.faults(readers.tracked()) == ["README.md: has several readers"]


def test_the_pages_for_users_have_at_most_that_many_words():
    assert readers.user_words() <= readers.USER_WORDS, "\n".join(readers.table())
