"""Texts as every database takes them, and sorts them."""

from __future__ import annotations

from sqlalchemy import Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator
from sqlalchemy.types import TypeEngine

NUL_SIGN = "\N{SYMBOL FOR NULL}"


def storable_text(text: str) -> str:
    """Return a text with a visible sign for each NUL and ``?`` for each half of a character.

    PostgreSQL refuses NUL, and no database takes what is not UTF-8. Compilers and crashed
    programs write both.
    """
    if text.isascii():
        return text.replace("\x00", NUL_SIGN)
    return text.replace("\x00", NUL_SIGN).encode("utf-8", "replace").decode("utf-8")


class StorableText(TypeDecorator[str]):
    """A text column: what is stored in it, and what is looked for, is made storable first.

    Sorted byte by byte, as SQLite does it: a server would sort by the language it was set up
    for, in which ``a`` comes before ``B``.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        """Return the column's type in a database."""
        return Text(collation="C" if dialect.name == "postgresql" else None)

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        """Make a text storable."""
        return None if value is None else storable_text(value)
