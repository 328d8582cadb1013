"""Ids of instances are said as they were given, however they are kept."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.node.store.instance_ids import KEY_BYTES, PREFIX, key_of, new_keys, text_of

texts = st.text() | st.text("0123456789abcdefABCDEF \n", min_size=22, max_size=26).map(PREFIX.__add__)


@given(texts)
def test_an_id_is_said_as_it_was_given(text: str) -> None:
    assert text_of(key_of(text)) == text


@given(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES))
def test_one_of_ours_is_kept_as_bytes(key: bytes) -> None:
    assert key_of(text_of(key)) == key


@pytest.mark.parametrize(
    "digits", ["0123456789ABCDEF01234567", "0123456789abcdef0123456", "01 3456789abcdef01234567", "g" * 24, ""]
)
def test_one_that_only_looks_like_ours_is_kept_as_text(digits: str) -> None:
    assert key_of(PREFIX + digits) == PREFIX + digits


def test_new_ones_differ() -> None:
    keys = list(islice(new_keys(), 1_000))
    assert len({*keys, next(new_keys())}) == 1_001
    assert {len(key) for key in keys} == {KEY_BYTES}
