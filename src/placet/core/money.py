"""What an action costs: the argument that holds the amount, and the currency it is in (H1).

Amounts are decimal numbers, exact to the last digit: nothing here rounds, and what is no number is
no amount.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal

from placet.core.canonical import JsonValue
from placet.core.errors import InvalidDeclaration

_PLAIN = re.compile(r"[+-]?[0-9]{1,60}(?:\.[0-9]{1,60})?", re.ASCII)
_CURRENCY = re.compile(r"[A-Z][A-Z0-9]{1,11}", re.ASCII)
_MOST_PLACES = 18
_EXACT = Context(prec=1000)


@dataclass(frozen=True, slots=True)
class Money:
    """An action's cost: the argument `field` (or one within it, as `order.total`), in `currency`.

    `places` says how many of the argument's digits stand behind the point: of an amount in cents,
    2. Raises InvalidDeclaration.
    """

    field: str
    currency: str
    places: int = 0

    def __post_init__(self) -> None:
        """Hold the parts against what they must be."""
        if not all(self.field.split(".")):
            raise InvalidDeclaration("invalid_money", "Money names the argument that holds it.")
        if not _CURRENCY.fullmatch(self.currency):
            raise InvalidDeclaration(
                "invalid_money",
                f"{self.currency!r} is no currency.",
                hint="Say it in capital letters, as USD.",
            )
        if isinstance(self.places, bool) or self.places not in range(_MOST_PLACES + 1):
            raise InvalidDeclaration(
                "invalid_money", f"Money has 0 to {_MOST_PLACES} places, and not {self.places!r}."
            )

    def found(self, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """Give what stands where the amount should, or None."""
        value: JsonValue = dict(arguments)
        for name in self.field.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def amount(self, arguments: Mapping[str, JsonValue]) -> Decimal | None:
        """Give the exact amount, in whole units of the currency; None: there is none."""
        value = self.found(arguments)
        if isinstance(value, str) and _PLAIN.fullmatch(value):
            number = Decimal(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            number = Decimal(str(value))
        else:
            return None
        return number.scaleb(-self.places, _EXACT) if number.is_finite() else None


def written(amount: Decimal) -> str:
    """Write an amount out, its thousands in groups: `1,290.00`."""
    return f"{amount:,f}"
